"""How a run ends that cannot go on: soon, with the reason, and so that it can be resumed.

Each attempt is verl's own training loop in a process of its own, as in test_kills.
"""

import multiprocessing
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from posttrain.rl.checkpoints import latest
from posttrain.rl.config import RlConfig
from tests.rl import world

SOURCES = ["a"] * 9 + ["b"] * 3


def _attempt(
    root: Path, config: RlConfig, faults: Mapping[str, float] = world.FEW, **broken: Exception
) -> str:
    """The message of what ended an attempt, empty if it came to its end.

    `broken` names methods of the queue, and what they raise from the 5th call on.
    """
    settings = world.settings_of(config, world.place_in(root))
    ours, theirs = multiprocessing.Pipe()

    def run() -> None:
        for name, fault in broken.items():
            _break(name, fault)
        try:
            world.attempt(root, config, settings, world.Killer("none", 1), faults)
            theirs.send("")
        except Exception as end:  # noqa: BLE001  # Handed to the test.
            theirs.send(f"{type(end).__name__}: {end}")

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    assert ours.poll(60), "neither an end nor a reason"
    said = str(ours.recv())
    process.join(60)
    return said


def _break(name: str, fault: Exception) -> None:
    sound = getattr(world.Queue, name)
    calls = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= 5:
            raise fault
        return sound(*args, **kwargs)

    setattr(world.Queue, name, broken)


def test_a_dead_reward_service_ends_the_run_and_its_return_resumes_it(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    config = world.config_of(limits={"faults": "50%"})
    said = _attempt(root, config, {"a": 1.0, "b": 1.0})
    assert "groups were lost to faults (limit 50%)" in said
    assert _attempt(root, config, {}) == ""
    found = world.check(root, config, SOURCES)
    assert "dropped.fault" not in found.counts, "what was lost in vain is void"


def test_a_full_queue_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    config = world.config_of()
    full = RuntimeError("the storage unit is full")
    assert _attempt(root, config, kv_batch_put=full) == f"RuntimeError: {full}"
    assert _attempt(root, config) == ""
    world.check(root, config, SOURCES)


def test_prompts_never_run_out_and_each_comes_as_often_as_another(tmp_path: Path) -> None:
    root = tmp_path / "run"
    few = ["a"] * 3 + ["b"]
    world.begin(root, few)
    config = world.config_of(steps=6)
    assert _attempt(root, config, {}) == ""
    found = world.check(root, config, few)
    issued = [prompt.row for prompt in found.prompts.values()]
    counts = {issued.count(row) for row in range(len(few))}
    assert max(counts) - min(counts) <= 1


def test_a_checkpoint_without_its_place_in_the_data_is_refused(tmp_path: Path) -> None:
    """verl warns, and begins the data anew."""
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    assert _attempt(root, world.config_of(steps=2), {}) == ""
    checkpoint = latest(root / "checkpoints")
    assert checkpoint is not None
    (checkpoint / "data.pt").unlink()
    said = _attempt(root, world.config_of(steps=4), {})
    assert "prompts issued, the checkpoint 0; remove the stage's work folder" in said


def test_a_checkpoint_without_its_prompts_under_way_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    assert _attempt(root, world.config_of(steps=2), {}) == ""
    checkpoint = latest(root / "checkpoints")
    assert checkpoint is not None
    (checkpoint / "transfer_queue").unlink()
    said = _attempt(root, world.config_of(steps=4), {})
    assert "are in the ledger or under way, but not both" in said


def test_a_checkpoint_the_ledger_does_not_know_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    assert _attempt(root, world.config_of(steps=2), {}) == ""
    shutil.copy(root / "ledger.jsonl", tmp_path / "whole")
    lines = (root / "ledger.jsonl").read_text().splitlines(keepends=True)
    (root / "ledger.jsonl").write_text("".join(lines[:5]))
    assert "no checkpoint of step 2" in _attempt(root, world.config_of(steps=4), {})


def test_a_source_above_its_limit_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    sources = {
        "a": {"data": "a", "verifier": "answer"},
        "b": {"data": "b", "verifier": "answer", "drop_above": "50%"},
    }
    config = world.config_of(sources=sources, steps=8, limits={"faults": "20%"})
    assert _attempt(root, config, {"b": 1.0}) == ""
    found = world.check(root, config, SOURCES)
    assert "groups were lost to faults (limit 50%)" in found.dropped_sources["b"]
    assert {found.prompts[number].source for number in range(len(found.prompts))} == {"a", "b"}
    assert found.prompts[len(found.prompts) - 1].source == "a"
    assert found.by_source["b"]["trained"] == 0


def test_a_run_does_not_go_on_without_any_source(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world.begin(root, ["a"] * 8)
    sources = {"a": {"data": "a", "verifier": "answer", "drop_above": "10%"}}
    config = world.config_of(sources=sources)
    said = _attempt(root, config, {"a": 1.0})
    assert said.startswith("RuntimeError: source a: ")
    assert said.endswith("a is the only source left")


@pytest.mark.parametrize("rule", [{"rule": "drop"}, {"rule": "windowed", "window": 2}])
def test_shares_are_kept_in_what_is_issued(tmp_path: Path, rule: dict[str, Any]) -> None:
    root = tmp_path / "run"
    world.begin(root, SOURCES)
    sources = {
        name: {"data": name, "verifier": "answer", "share": share}
        for name, share in (("a", 0.25), ("b", 0.75))
    }
    config = world.config_of(sources=sources, **rule)
    assert _attempt(root, config) == ""
    found = world.check(root, config, SOURCES)
    assert abs(found.by_source["b"]["issued"] - 0.75 * len(found.prompts)) <= 2
