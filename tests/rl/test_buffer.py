from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from verl.trainer.ppo.v1 import replay_buffer

from posttrain.rl.buffer import FLAT_BATCHES, BoundedBuffer

BATCH = 4


class Queue:
    """The part of TransferQueue that the buffer uses, in memory; groups of two trajectories."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.rewards: dict[str, float] = {}

    def add(self, uid: str, status: str, rewards: tuple[float, ...] = (), step: int = 1) -> None:
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


def _buffer(queue: Queue, refill: Any = None, faults: float = 0.2) -> tuple[BoundedBuffer, Counter]:
    seen: Counter[str] = Counter()
    buffer = BoundedBuffer(
        faults=faults, batch=BATCH, alive=lambda: seen.update(["alive"]),
        trainer_mode="separate_async", trainer_config=SimpleNamespace(),
        max_off_policy_threshold=2, max_off_policy_strategy="drop",
        refill_fn=refill or (lambda count: seen.update(refilled=count)),
    )  # fmt: skip
    return buffer, seen


def test_groups_of_equal_rewards_and_failed_ones_are_replaced(queue: Queue) -> None:
    queue.add("flat", "finished", (1.0, 1.0))
    queue.add("lost", "failure")
    for uid in "abcd":
        queue.add(uid, "finished", (0.0, 1.0))
    buffer, seen = _buffer(queue, faults=0.3)
    batch, metrics = buffer.sample(global_steps=1, partition_id="train", batch_size=BATCH)
    assert {key.split("_")[0] for key in batch.keys} == set("abcd")
    assert seen["refilled"] == 2
    assert metrics["training/filter_groups/evicted_samples"] == 1
    assert metrics["training/rollout_failure/evicted_samples"] == 1
    assert seen["alive"] > 0


def test_a_group_too_stale_is_dropped_and_the_oldest_allowed_goes_first(queue: Queue) -> None:
    queue.add("stale", "finished", (0.0, 1.0), step=1)
    queue.add("old", "finished", (0.0, 1.0), step=2)
    queue.add("new", "finished", (0.0, 1.0), step=3)
    buffer, seen = _buffer(queue)
    batch, metrics = buffer.sample(global_steps=3, partition_id="train", batch_size=1)
    assert {key.split("_")[0] for key in batch.keys} == {"old"}
    assert metrics["training/off_policy/evicted_samples"] == 1
    assert seen["refilled"] == 1


def test_too_many_faults_end_the_run(queue: Queue) -> None:
    def lose(count: int) -> None:
        for _ in range(count):
            queue.add(f"lost{len(queue.tags)}x{count}", "failure")

    lose(1)
    buffer, _ = _buffer(queue, refill=lose)
    with pytest.raises(RuntimeError, match=r"groups were lost to faults \(limit 20%\)"):
        buffer.sample(global_steps=1, partition_id="train", batch_size=BATCH)


def test_nothing_but_equal_rewards_end_the_run(queue: Queue) -> None:
    names = (f"flat{number}" for number in range(10_000))

    def equal(count: int) -> None:
        for _ in range(count):
            queue.add(next(names), "finished", (1.0, 1.0))

    equal(BATCH)
    buffer, _ = _buffer(queue, refill=equal)
    with pytest.raises(RuntimeError, match=r"step 7: \d+ groups had equal rewards .*1\.0") as end:
        buffer.sample(global_steps=7, partition_id="train", batch_size=BATCH)
    assert int(str(end.value).split()[2]) > FLAT_BATCHES * BATCH
