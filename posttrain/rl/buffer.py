"""verl replay buffer that never waits for what cannot come, and says of each prompt why it went.

verl evicts and replaces groups that failed, are too stale, or whose rewards are all equal; alone
it would do so for ever. This one counts them: too large a share of failed groups, or a step that
meets too many groups of equal rewards, ends the run with the reason. Every group that arrives is
a sign of life. What is trained goes in order of issue; with a window, nothing that was issued more
than so many prompts after the oldest unfinished one is trained on before that.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

from posttrain.rl.ledger import Ledger
from posttrain.rl.sources import Faults

POLL = 0.05
"""Seconds between looks; verl's own 2 s would be most of a small step."""

FLAT_BATCHES = 16
"""Batches' worth of groups with equal rewards that one step may meet before the run stops."""

WINDOW = 4
"""Batches' worth of groups over which the share of failed ones is taken."""


class BoundedBuffer(ReplayBufferAsync):  # type: ignore[misc]  # verl ships no types
    """`faults` is the largest share of failed groups, but of sources in `apart`, which have their
    own; `batch` the prompts of a step, `window` that of the windowed rule; `alive` is called
    whenever a group has arrived. Keys of prompts are their numbers in the `ledger`."""

    def __init__(
        self, *, ledger: Ledger, faults: float, apart: Faults, batch: int,
        alive: Callable[[], None], window: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            sampler_kwargs={}, poll_interval=POLL, filter_groups_metric="reward", **kwargs
        )
        self._ledger, self._apart, self._window = ledger, apart, window
        self._faults, self._batch, self._alive = faults, batch, alive
        self._lost: list[bool] = []
        self._flat: Counter[int] = Counter()
        self._arrived = 0

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, eviction_reasons: tuple[Any, ...]
    ) -> tuple[set[str], int, int, dict[str, Any]]:
        stale, flat, failed, values = eviction_reasons
        rewards = dict(self._dapo_classification_cache[partition_id])
        for uid in sorted(stale | flat | failed, key=int):
            if uid in flat - failed:
                self._ledger.note("filtered", prompt=int(uid), reward=rewards[uid])
            else:
                why = "fault" if uid in failed else "stale"
                self._ledger.note("dropped", prompt=int(uid), why=why, step=global_steps)
        self._notice(failed, flat - failed)
        self._flat[global_steps] += len(flat)
        self._stop_if_flat(global_steps, values)
        result: tuple[set[str], int, int, dict[str, Any]] = super()._evict_terminal_groups(
            global_steps, partition_id, eviction_reasons
        )
        return result

    def _sampleable_terminal_keys(self, partition_id: str, reasons: tuple[Any, ...]) -> set[str]:
        keys: set[str] = super()._sampleable_terminal_keys(partition_id, reasons)
        unfinished = self.pending_keys[partition_id] | self.running_keys[partition_id]
        if self._window is None or not unfinished:
            return keys
        oldest = min(map(int, unfinished))
        return {key for key in keys if int(key) < oldest + self._window}

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], Any, Any]:
        _, snapshot, steps = super()._select_prompt_uids(partition_id, sampleable_keys, batch_size)
        selected = sorted(sampleable_keys, key=int)[:batch_size]
        self._notice(failed=set(), sound=set(selected))
        return selected, snapshot, steps

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
        shared = []
        for uid in failed | sound:
            source = self._ledger.account.prompts[int(uid)].source
            if self._apart.limited(source):
                self._apart.add(source, uid in failed)
            else:
                shared.append(uid in failed)
        self._lost = [*self._lost, *shared][-WINDOW * self._batch :]
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
