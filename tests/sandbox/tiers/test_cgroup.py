"""Control groups: version 2 on a tree of files made like the kernel's, version 1 as it is here."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.tiers import Limits, cgroup
from sandbox.tiers.cgroup import Group, Parents, find_parents

MIB = 2**20
_V2 = {
    "cgroup.procs": "", "memory.max": "max", "memory.swap.max": "max", "pids.max": "max",
    "memory.current": str(30 * MIB), "memory.peak": str(50 * MIB),
    "memory.stat": f"anon {20 * MIB}\ninactive_file {6 * MIB}\nactive_file {4 * MIB}\n",
    "memory.events": "low 0\noom 0\noom_kill 3\noom_group_kill 0\n",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version 2 hierarchy, where a new directory gets its files, as the kernel does it."""
    top = tmp_path / "cgroup"
    top.mkdir()
    plain = Path.mkdir

    def mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        plain(self, mode, parents, exist_ok)
        if self.is_relative_to(top):
            for name, text in _V2.items():
                (self / name).write_text(text)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return top


def proc(tmp_path: Path, tree: Path, own: str) -> Path:
    """A /proc of a process in the group `own` of the hierarchy."""
    folder = tmp_path / "proc"
    (folder / "self").mkdir(parents=True)
    (folder / "self/cgroup").write_text(f"0::{own}\n")
    (folder / "self/mountinfo").write_text(
        f"20 1 0:20 / /proc rw - proc proc rw\n25 1 0:22 / {tree} rw shared:4 - cgroup2 none rw\n"
    )
    return folder


def delegate(directory: Path, controllers: str = "cpu memory pids") -> None:
    directory.mkdir(exist_ok=True)
    (directory / "cgroup.controllers").write_text(controllers)
    (directory / "cgroup.subtree_control").write_text("")


def test_version_2_is_used_where_it_was_delegated(tmp_path: Path, tree: Path) -> None:
    delegate(tree / "service")
    parents = find_parents(proc(tmp_path, tree, "/service"))
    assert parents is not None
    assert set(parents.directories) == {"memory", "pids", "cpuacct", "cpu"}
    assert set(parents.directories.values()) == {tree / "service"}
    written = (tree / "service/cgroup.subtree_control").read_text()
    assert written.split() == ["+memory", "+pids", "+cpu"]


def test_a_group_with_processes_of_its_own_moves_them_first(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegate(tree / "service")
    plain, tries = cgroup._write, []

    def write(path: Path, value: int | str) -> None:
        if path.name == "cgroup.subtree_control":
            tries.append(path)
            if not (tree / "service/posttrain-sandbox").exists():
                raise OSError(16, "busy")
        plain(path, value)

    monkeypatch.setattr(cgroup, "_write", write)
    assert find_parents(proc(tmp_path, tree, "/service")) is not None
    assert len(tries) == 2
    moved = tree / "service/posttrain-sandbox/cgroup.procs"
    assert _first(moved) == str(os.getpid())


def _first(path: Path) -> str:
    """What was written; the kernel keeps nothing of what was there before."""
    return path.read_text().split()[0]


def test_version_2_without_what_it_takes_is_not_used(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    delegate(tree / "service", "cpu io")
    assert find_parents(proc(tmp_path, tree, "/service")) is None


def test_root_uses_the_top_where_its_own_group_is_taken(tmp_path: Path, tree: Path) -> None:
    delegate(tree)
    delegate(tree / "session", "")
    parents = find_parents(proc(tmp_path, tree, "/session"))
    if os.geteuid() != 0:
        assert parents is None
    else:
        assert parents is not None
        assert parents.directories["memory"] == tree


def test_a_group_of_version_2_is_bounded_and_read(tree: Path) -> None:
    group = Group(Parents(cgroup.V2, dict.fromkeys(("memory", "pids", "cpuacct"), tree)), 0)
    (made,) = tree.iterdir()
    assert group.joins == [made / "cgroup.procs"]
    group.settle()
    group.begin(Limits(memory=64 * MIB, processes=10))
    own = 20 * MIB  # In use, without what is only cached.
    assert _first(made / "memory.max") == str(own + 8 * MIB + 64 * MIB)
    assert _first(made / "memory.swap.max") == "0"
    assert _first(made / "pids.max") == "14"
    (made / "memory.peak").write_text(str(50 * MIB))
    assert group.peak() == 30 * MIB
    assert not group.killed()
    (made / "memory.events").write_text("oom_kill 4\n")
    assert group.killed()
    counter = group.counter()
    assert counter is not None
    assert os.pread(counter[0], 100, 0).split()[1] == b"1500000"
    assert counter[1] == 10**6
    os.close(counter[0])


def test_a_kernel_that_cannot_start_a_peak_anew_has_none(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", _refused)
    group = Group(Parents(cgroup.V2, {"memory": tree}), 0)
    assert group.peak() is None


def _refused(*_: object) -> int:
    raise OSError(22, "invalid")


def reaped(folder: Path, *names: str) -> set[str]:
    """Which groups of these names are gone after reaping."""
    for name in names:
        (folder / name).mkdir(exist_ok=True)
    cgroup.reap(Parents(cgroup.V2, {"memory": folder}))
    return set(names) - {path.name for path in folder.iterdir()}


def test_groups_of_the_dead_are_reaped_and_of_the_living_not(tmp_path: Path) -> None:
    us = cgroup._ours()
    dead = {f"{us}999999999-5-0", f"{us}{os.getpid()}-1-0"}
    living = f"{us}{os.getpid()}-{cgroup.born(os.getpid())}-0"
    assert reaped(tmp_path, *dead, living) == dead


def test_groups_of_another_process_namespace_are_not_taken_for_those_of_the_dead(
    tmp_path: Path,
) -> None:
    assert reaped(tmp_path, "posttrain-sandbox.1-999999999-5-0") == set()


def test_a_group_is_removed_once_those_in_it_were_killed_and_0_is_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 is shown for a process of another namespace; to kill 0 would be to kill ourselves."""
    name = f"{cgroup._ours()}999999999-5-0"
    processes = tmp_path / name / "cgroup.procs"
    processes.parent.mkdir()
    processes.write_text("0\n999999999\n")
    killed: list[int] = []

    def kill(pid: int, _: int) -> None:
        killed.append(pid)
        processes.unlink()

    monkeypatch.setattr(os, "kill", kill)
    assert reaped(tmp_path, name) == {name}
    assert killed == [999999999]


def test_a_real_group_is_made_bounded_and_removed() -> None:
    parents = find_parents()
    if parents is None or "memory" not in parents.directories:
        pytest.skip("no control groups to be had here")
    group = Group(parents, 987)
    paths = [path.parent for path in group.joins]
    assert all(path.is_dir() for path in paths)
    group.settle()
    for memory in (64 * MIB, 256 * MIB, 16 * MIB):
        group.begin(replace(Limits(), memory=memory))
        assert _bound(group, parents) == pytest.approx(memory + 8 * MIB, abs=2 * MIB)
    asyncio.run(group.end())
    assert not any(path.exists() for path in paths)


def _bound(group: Group, parents: Parents) -> int:
    directory = next(path.parent for path in group.joins if "memory" in str(path))
    return int((directory / parents.dialect.memory).read_text())
