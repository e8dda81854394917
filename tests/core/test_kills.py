"""kill -9 at each step on the file system: what is there stays whole, and a repeat succeeds."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posttrain.gates import Finding
from posttrain.registry import Registry
from posttrain.store import Store, write_durably

STEPS = ("mkdir", "open", "write", "fsync", "link", "rename", "replace", "unlink", "rmdir")


def killed_at_each_step(deed: Callable[[Path], None], folder: Path) -> Iterator[Path]:
    """Folders in each of which `deed` was killed just before or just after another step."""
    for after in (False, True):
        step = 0
        while _killed(deed, place := folder / f"{step}-{after}", step, after):
            yield place
            step += 1
        assert step > 3


def _killed(deed: Callable[[Path], None], place: Path, step: int, after: bool) -> bool:
    """Whether a child that did `deed` had a step number `step` (from 0) to be killed at."""
    place.mkdir()
    child = os.fork()
    if child == 0:
        _kill_at(step, after)
        deed(place)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def _kill_at(step: int, after: bool) -> None:
    left = [step]

    def fatal(name: str) -> Callable[..., object]:
        plain = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = plain(*arguments, **options)
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in STEPS:
        setattr(os, name, fatal(name))


def make(place: Path) -> None:
    """Commit a small artifact."""
    store = Store(place)
    draft = store.draft("r", "s", "k")
    (draft.work / "state").write_text("step 5")
    (draft.output / "model").mkdir()
    for name in ("a", "model/b"):
        (draft.output / name).write_text(name)
    store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts={})


def test_a_commit_happens_wholly_or_not_at_all(tmp_path: Path) -> None:
    whole = []
    for place in killed_at_each_step(make, tmp_path):
        before = list(Store(place).artifacts())
        for artifact in before:
            artifact.verify()
            assert artifact.record.files.keys() == {"a", "model/b"}
        Store(place).clear("r")
        make(place)
        assert [artifact.address for artifact in Store(place).artifacts()] == ["r/s@1"]
        assert Store(place).find("k") is not None
        assert not list((place / "drafts").iterdir())
        assert not (place / "work/r/s").exists()
        whole.append(bool(before))
    assert len(set(whole)) == 2, "no step of the commit was hit"


def test_work_survives_until_it_is_committed(tmp_path: Path) -> None:
    for place in killed_at_each_step(make, tmp_path):
        state = Store(place).work("r", "s", "k") / "state"
        if state.exists():
            assert state.read_text() in ("", "step 5")
        else:
            assert not list((place / "drafts").glob("*/a")) or Store(place).find("k")


@pytest.mark.parametrize("text", ["new", "new " * 9000])
def test_a_durable_file_holds_the_old_or_the_new_text(tmp_path: Path, text: str) -> None:
    def replace(place: Path) -> None:
        write_durably(place / "f", text)

    for place in killed_at_each_step(replace, tmp_path):
        assert not (place / "f").exists() or (place / "f").read_text() == text
        replace(place)
        assert (place / "f").read_text() == text


def test_an_alias_is_moved_wholly_or_not_at_all(tmp_path: Path) -> None:
    def promote(place: Path) -> None:
        store = Store(place)
        Registry(store).promote(store.get("r/s@1"), "candidate", [Finding("g", True, "")])

    def made_and_promoted(place: Path) -> None:
        make(place)
        promote(place)

    for place in killed_at_each_step(made_and_promoted, tmp_path):
        assert Registry(Store(place)).aliases() in ({}, {"candidate": "r/s@1"})
        Store(place).clear("r")
        made_and_promoted(place)
        assert Registry(Store(place)).aliases() == {"candidate": "r/s@1"}
