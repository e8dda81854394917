"""verl replay buffer that never waits for what cannot come.

verl evicts and replaces groups that failed, are too stale, or whose rewards are all equal; alone
it would do so for ever. This one counts them: too large a share of failed groups, or a step that
meets too many groups of equal rewards, ends the run with the reason. Every group that arrives is
a sign of life.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

POLL = 0.05
"""Seconds between looks; verl's own 2 s would be most of a small step."""

FLAT_BATCHES = 16
"""Batches' worth of groups with equal rewards that one step may meet before the run stops."""

WINDOW = 4
"""Batches' worth of groups over which the share of failed ones is taken."""


class BoundedBuffer(ReplayBufferAsync):  # type: ignore[misc]  # verl ships no types
    """`faults` is the largest share of failed groups, `batch` the prompts of a step, `alive` is
    called whenever a group has arrived."""

    def __init__(
        self, *, faults: float, batch: int, alive: Callable[[], None], **kwargs: Any
    ) -> None:
        super().__init__(
            sampler_kwargs={}, poll_interval=POLL, filter_groups_metric="reward", **kwargs
        )
        self._faults, self._batch, self._alive = faults, batch, alive
        self._lost: list[bool] = []
        self._flat: Counter[int] = Counter()
        self._arrived = 0

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, eviction_reasons: tuple[Any, ...]
    ) -> tuple[set[str], int, int, dict[str, Any]]:
        _, flat, failed, values = eviction_reasons
        self._notice(failed, flat - failed)
        self._flat[global_steps] += len(flat)
        self._stop_if_flat(global_steps, values)
        result: tuple[set[str], int, int, dict[str, Any]] = super()._evict_terminal_groups(
            global_steps, partition_id, eviction_reasons
        )
        return result

    def _select_prompt_uids(self, *args: Any) -> tuple[list[str], Any, Any]:
        selected: tuple[list[str], Any, Any] = super()._select_prompt_uids(*args)
        self._notice(failed=set(), sound=set(selected[0]))
        return selected

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        arrived = len(self.finished_keys[partition_id])
        if arrived > self._arrived:
            self._alive()
        self._arrived = arrived
        waited: float = super()._wait_for_next_poll(partition_id, last_debug_time)
        return waited

    def _notice(self, failed: set[str], sound: set[str]) -> None:
        """Take groups into the account of losses; RuntimeError above the share allowed."""
        if failed or sound:
            self._alive()
        window = WINDOW * self._batch
        self._lost = [*self._lost, *[True] * len(failed), *[False] * len(sound)][-window:]
        lost = sum(self._lost)
        # Judged against a full batch at least, so that a single early fault does not end a run.
        if lost > self._faults * max(len(self._lost), self._batch):
            raise RuntimeError(
                f"{lost} of the last {len(self._lost)} groups were lost to faults (limit "
                f"{self._faults:.0%}); the rollout log names each; check the reward service"
            )

    def _stop_if_flat(self, step: int, values: Counter[float]) -> None:
        if self._flat[step] > FLAT_BATCHES * self._batch:
            raise RuntimeError(
                f"step {step}: {self._flat[step]} groups had equal rewards (last: {dict(values)}) "
                "and nothing can be learned from those; stop here, or change the prompts"
            )
