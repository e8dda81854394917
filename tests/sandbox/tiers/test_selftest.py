"""The self-test passes on this machine, and fails when any one protection is switched off."""

import asyncio
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandbox import selftest
from sandbox.selftest import Report, self_test
from sandbox.tiers import Slot, SlotLost, cgroup, namespaces
from sandbox.tiers.namespaces import Namespaces

Patch = pytest.MonkeyPatch
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up its user for slots")


def outcome_of(*names: str) -> Report:
    """The self-test, or only some of its probes."""
    if not names:
        return asyncio.run(self_test(Namespaces()))
    with pytest.MonkeyPatch.context() as patch:
        every = selftest._probes
        patch.setattr(selftest, "_probes", lambda c: {name: every(c)[name] for name in names})
        return asyncio.run(self_test(Namespaces()))


def test_a_sound_tier_passes() -> None:
    report = outcome_of()
    assert report.passed, report.failures
    assert len(report.checks) > 15


def test_a_tier_that_makes_no_slots_fails() -> None:
    class Broken:
        name = "broken"

        async def slot(self) -> Slot:
            raise SlotLost("start", "no such thing")

        def enforces(self) -> Mapping[str, str]:
            return {}

    assert asyncio.run(self_test(Broken())).failures == {"a slot": "cannot be made: no such thing"}


def test_a_tier_that_promises_nothing_is_not_even_tried() -> None:
    class Open:
        name = "open"

        async def slot(self) -> Slot:
            raise AssertionError("no probe may run here")

        def enforces(self) -> Mapping[str, str]:
            return {"filesystem": "nothing"}

    assert asyncio.run(self_test(Open())).failures == {
        "isolation": "the tier open does not isolate"
    }


@pytest.mark.parametrize("harm", ["os.kill(-1", "SIGKILL", "O_CREAT", "mount("])
def test_a_probe_does_no_harm_where_nothing_holds_it(harm: str) -> None:
    canaries = selftest.Canaries(Path("/canary"), "secret", 1, "\0secret")
    sources = {name: probe.source for name, probe in selftest._probes(canaries).items()}
    del sources["leaving something"]  # Its own files, which the next probe looks for and removes.
    assert not any(harm in source for source in sources.values())


def without_seccomp(patch: Patch) -> None:
    allow = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    patch.setattr(namespaces.seccomp, "program_filter", lambda **_: allow)


def without_user(patch: Patch) -> None:
    patch.setattr(namespaces, "host_user", lambda first, number: None)


def commanded(change: Callable[[list[str]], list[str]]) -> Callable[[Patch], None]:
    """A change of what bubblewrap is told."""

    def apply(patch: Patch) -> None:
        plain = namespaces.command
        patch.setattr(
            namespaces, "command", lambda root, shown, argv: change(plain(root, shown, argv))
        )

    return apply


def with_host_network(words: list[str]) -> list[str]:
    at = words.index("--unshare-all") + 1
    return [*words[:at], "--share-net", *words[at:]]


def with_host_files(words: list[str]) -> list[str]:
    at = words.index("--proc")
    return [*words[:at], "--ro-bind", "/var/tmp", "/var/tmp", *words[at:]]


def with_writable_root(words: list[str]) -> list[str]:
    at = words.index("--remount-ro")
    return [*words[:at], *words[at + 2 :]]


def inside(*changes: tuple[str, str]) -> Callable[[Patch], None]:
    """Changes (old text, new text) of the code that runs inside, wherever it stands there."""

    def apply(patch: Patch) -> None:
        plain = namespaces.shipment

        def changed(supervisor: str, rules: bytes) -> dict[str, bytes]:
            files = plain(supervisor, rules)
            for old, new in changes:
                paths = [path for path, content in files.items() if old.encode() in content]
                assert paths, f"what is to be switched off is not there: {old}"
                for path in paths:
                    files[path] = files[path].replace(old.encode(), new.encode())
            return files

        patch.setattr(namespaces, "shipment", changed)

    return apply


def without_memory_limit(patch: Patch) -> None:
    patch.setattr(cgroup.Group, "_bound_memory", lambda self, memory: None)


def without_process_limit(patch: Patch) -> None:
    plain = cgroup._write
    patch.setattr(
        cgroup,
        "_write",
        lambda path, value: plain(path, 1000 if path.name == "pids.max" else value),
    )


def with_our_environment(patch: Patch) -> None:
    plain = Namespaces._launch

    def launch(*arguments: Any) -> dict[str, Any]:
        told = plain(*arguments)
        return told | {"env": {**os.environ, **told["env"]}}

    patch.setattr(Namespaces, "_launch", launch)


MUTATIONS: dict[str, tuple[Callable[[Patch], None], Sequence[str]]] = {
    "seccomp": (without_seccomp, ["system calls"]),
    "network namespace": (commanded(with_host_network), ["network"]),
    "files hidden": (commanded(with_host_files), ["filesystem"]),
    "read-only root": (commanded(with_writable_root), ["filesystem"]),
    "environment": (with_our_environment, ["environment"]),
    "capabilities dropped": (
        inside(("kernel.drop_capabilities()", "pass")),
        ["user"],
    ),
    "descriptors closed": (
        inside(("os.closerange(GATE + 1,", "max(0,")),
        ["descriptors"],
    ),
    "process namespace": (
        inside(
            ("kernel.unshare(kernel.CLONE_NEWPID)", "pass"),
            ("if os.getpid() != PROGRAM:", "if False:"),  # It would be noticed, and none started.
        ),
        ["processes of ours"],
    ),
    "fresh shared memory": (
        inside(("kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC", "kernel.CLONE_NEWNS")),
        ["leaving something", "finding something"],
    ),
    "wall": (inside(("if left <= 0:", "if False:")), ["wall"]),
    "cpu": (
        inside(
            ("if spare <= 0:", "if False:"),
            ("resource.RLIMIT_CPU: (processor, processor + 1),", ""),
            ('if processor >= self._limits["cpu"]:', "if False:"),
        ),
        ["cpu"],
    ),
    "output": (
        inside(
            ("len(self.content) > self._limit", "False"),
            ("min(_CHUNK, self._limit + 1 - len(self.content))", "_CHUNK"),
        ),
        ["output"],
    ),
    "bounded files": (
        inside(
            ('resource.RLIMIT_FSIZE: (limits["files"], limits["files"]),', ""),
            ("size={size},", ""),
        ),
        ["files"],
    ),
}


def assert_a_probe_tells(*names: str) -> None:
    """A program could do what it should not; not that no slot could be had or kept for it."""
    failures = outcome_of(*names).failures
    assert failures
    assert set(failures) <= set(names)
    assert not [wrong for wrong in failures.values() if "the slot was lost" in wrong], failures


@pytest.mark.parametrize("name", MUTATIONS)
def test_it_fails_without(name: str, monkeypatch: Patch) -> None:
    mutate, probes = MUTATIONS[name]
    mutate(monkeypatch)
    assert_a_probe_tells(*probes)


@root_only
def test_it_fails_without_a_user_of_its_own(monkeypatch: Patch) -> None:
    without_user(monkeypatch)
    assert "be root on the host" in str(outcome_of("user").failures)


@pytest.mark.parametrize(
    ("mutate", "probe"),
    [(without_memory_limit, "memory of children"), (without_process_limit, "processes")],
)
def test_it_fails_without_bounds_by_control_groups(
    monkeypatch: Patch, mutate: Callable[[Patch], None], probe: str
) -> None:
    if cgroup.find_parents() is None:
        pytest.skip("no control groups to be had here")
    mutate(monkeypatch)
    assert_a_probe_tells(probe)


def test_canaries_are_gone_afterwards(monkeypatch: Patch) -> None:
    made: list[selftest.Canaries] = []
    monkeypatch.setattr(selftest, "_probes", lambda canaries: made.append(canaries) or {})
    outcome_of()
    assert not made[0].file.exists()
    assert "SANDBOX_CANARY" not in os.environ
    assert made[0].secret not in Path("/proc/net/unix").read_text()
