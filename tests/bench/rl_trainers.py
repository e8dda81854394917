"""verl's synchronous trainer as a baseline: its own, told only how often to look for a batch.

It generates and trains in turn on all accelerators, leaves out groups of equal rewards as the
asynchronous one does, and issues two batches' worth for what it leaves out (verl's own rule).
"""

from collections.abc import Callable, Mapping
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from posttrain.rl.buffer import POLL

Report = Callable[[int, Mapping[str, float]], None]

TIMES = {
    "seconds": "timing_s/step", "seconds_waiting": "timing_s/gen",
    "seconds_update": "timing_s/update_actor", "seconds_sync": "timing_s/update_weights",
}  # fmt: skip


class SyncTrainer(PPOTrainerSync):  # type: ignore[misc]  # verl ships no types
    """`report` gets the times of each step."""

    def __init__(self, config: Any, report: Report) -> None:
        self._report = report
        super().__init__(config)

    def _build_replay_buffer(self) -> Any:
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = POLL
        return buffer

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        figures = {ours: float(metrics.get(theirs, 0.0)) for ours, theirs in TIMES.items()}
        tokens = sum(tag["response_len"] for tag in batch.tags)
        reward = float(metrics["critic/score/mean"])
        self._report(self.global_steps, {**figures, "tokens": tokens, "reward": reward})
