from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from verl.trainer.ppo.v1 import replay_buffer

from posttrain.rl.account import Account
from posttrain.rl.buffer import FLAT_BATCHES, BoundedBuffer
from posttrain.rl.sources import ENOUGH, Faults

BATCH = 4

STALE, FLAT, LOST = 100, 101, 102
"""Prompts by what is to become of them."""


class Queue:
    """The part of TransferQueue that the buffer uses, in memory; groups of two trajectories."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.rewards: dict[str, float] = {}

    def add(self, number: int, status: str, rewards: tuple[float, ...] = (), step: int = 1) -> None:
        uid = str(number)
        self.tags[uid] = {"is_prompt": True, "status": status, "global_steps": step}
        for index, reward in enumerate(rewards):
            self.tags[f"{uid}_{index}_0"] = {"status": "success", "seq_len": 3}
            self.rewards[f"{uid}_{index}_0"] = reward

    def kv_list(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {"train": dict(self.tags)}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            self.tags.pop(key, None)

    def kv_batch_get(self, keys: list[str], **unused: Any) -> dict[str, list[torch.Tensor]]:
        return {"rm_scores": [torch.tensor([self.rewards[key]]) for key in keys]}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    monkeypatch.setattr(replay_buffer, "tq", queue)
    return queue


class Notes:
    """Stands for a ledger in which any prompt was issued: those from 1000 on are source `b`'s."""

    def __init__(self) -> None:
        self.account = Account()
        self.account.prompts = _Any()
        self.ended: dict[int, str] = {}

    def note(self, event: str, prompt: int, **fields: Any) -> None:
        assert prompt not in self.ended
        self.ended[prompt] = fields.get("why", event)


class _Any(dict[int, Any]):
    def __missing__(self, number: int) -> Any:
        return SimpleNamespace(source="b" if number >= 1000 else "a")


def _buffer(
    queue: Queue, refill: Any = None, faults: float = 0.2, **more: Any
) -> tuple[BoundedBuffer, Counter[str], Notes]:
    seen: Counter[str] = Counter()
    notes = Notes()
    settings: dict[str, Any] = {
        "apart": Faults({}), "max_off_policy_threshold": 2, "max_off_policy_strategy": "drop"
    }  # fmt: skip
    buffer = BoundedBuffer(
        ledger=notes, faults=faults, batch=BATCH, alive=lambda: seen.update(["alive"]),
        trainer_mode="separate_async", trainer_config=SimpleNamespace(),
        refill_fn=refill or (lambda count: seen.update(refilled=count)), **settings | more,
    )  # type: ignore[arg-type]  # fmt: skip
    return buffer, seen, notes


def _numbers(batch: Any) -> set[int]:
    return {int(key.split("_")[0]) for key in batch.keys}


def test_groups_of_equal_rewards_and_failed_ones_are_replaced(queue: Queue) -> None:
    queue.add(FLAT, "finished", (1.0, 1.0))
    queue.add(LOST, "failure")
    for number in range(BATCH):
        queue.add(number, "finished", (0.0, 1.0))
    buffer, seen, notes = _buffer(queue, faults=0.3)
    batch, metrics = buffer.sample(global_steps=1, partition_id="train", batch_size=BATCH)
    assert _numbers(batch) == {0, 1, 2, 3}
    assert seen["refilled"] == 2
    assert metrics["training/filter_groups/evicted_samples"] == 1
    assert metrics["training/rollout_failure/evicted_samples"] == 1
    assert notes.ended == {FLAT: "filtered", LOST: "fault"}
    assert seen["alive"] > 0


def test_a_group_too_stale_is_dropped_and_the_first_issued_goes_first(queue: Queue) -> None:
    queue.add(STALE, "finished", (0.0, 1.0), step=1)
    queue.add(12, "finished", (0.0, 1.0), step=3)
    queue.add(9, "finished", (0.0, 1.0), step=3)
    buffer, seen, notes = _buffer(queue)
    batch, metrics = buffer.sample(global_steps=3, partition_id="train", batch_size=1)
    assert _numbers(batch) == {9}
    assert metrics["training/off_policy/evicted_samples"] == 1
    assert seen["refilled"] == 1
    assert notes.ended == {STALE: "stale"}


@pytest.mark.parametrize(("window", "taken"), [(1, {0, 1}), (3, {0, 1}), (4, {0, 1, 5})])
def test_the_window_begins_at_the_oldest_unfinished_prompt(
    queue: Queue, window: int, taken: set[int]
) -> None:
    for number in (0, 1, 5, 6):
        queue.add(number, "finished", (0.0, 1.0))
    queue.add(2, "running")
    buffer, _, notes = _buffer(queue, window=window, max_off_policy_threshold=None)
    assert buffer.get_sampleable_count(1, "train") == len(taken)
    batch, _ = buffer.sample(global_steps=9, partition_id="train", batch_size=len(taken))
    assert _numbers(batch) == taken
    assert notes.ended == {}


def test_where_all_are_finished_the_window_holds_nothing_up(queue: Queue) -> None:
    """A window that began at what is finished but not taken would never fill a batch."""
    for number in (0, 50, 60, 70):
        queue.add(number, "finished", (0.0, 1.0))
    buffer, _, _ = _buffer(queue, window=2, max_off_policy_threshold=None)
    batch, _ = buffer.sample(global_steps=9, partition_id="train", batch_size=BATCH)
    assert _numbers(batch) == {0, 50, 60, 70}


def test_too_many_faults_end_the_run(queue: Queue) -> None:
    def lose(count: int) -> None:
        for _ in range(count):
            queue.add(len(queue.tags) + count * 10, "failure")

    lose(1)
    buffer, _, _ = _buffer(queue, refill=lose)
    with pytest.raises(RuntimeError, match=r"groups were lost to faults \(limit 20%\)"):
        buffer.sample(global_steps=1, partition_id="train", batch_size=BATCH)


def test_faults_of_a_source_with_a_limit_of_its_own_are_not_the_runs(queue: Queue) -> None:
    for number in range(1000, 1000 + ENOUGH):
        queue.add(number, "failure")
    for number in range(BATCH):
        queue.add(number, "finished", (0.0, 1.0))
    apart = Faults({"b": 0.5})
    buffer, _, _ = _buffer(queue, apart=apart)
    batch, _ = buffer.sample(global_steps=1, partition_id="train", batch_size=BATCH)
    assert _numbers(batch) == {0, 1, 2, 3}
    assert apart.excess() == {
        "b": f"{ENOUGH} of its last {ENOUGH} groups were lost to faults (limit 50%)"
    }
    assert apart.excess() == {}


def test_nothing_but_equal_rewards_end_the_run(queue: Queue) -> None:
    numbers = iter(range(10_000))

    def equal(count: int) -> None:
        for _ in range(count):
            queue.add(next(numbers), "finished", (1.0, 1.0))

    equal(BATCH)
    buffer, _, _ = _buffer(queue, refill=equal)
    with pytest.raises(RuntimeError, match=r"step 7: \d+ groups had equal rewards .*1\.0") as end:
        buffer.sample(global_steps=7, partition_id="train", batch_size=BATCH)
    assert int(str(end.value).split()[2]) > FLAT_BATCHES * BATCH
