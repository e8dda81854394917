"""When a worker has to go: because its check is late, or because it has grown old.

The deadline is CPU time, so that a busy machine changes no verdict. A check that has not used it
up after `PATIENCE` times as long by the clock is stalled: the machine's doing, not the item's.
Where the kernel does not tell CPU times, the clock alone counts.
"""

from dataclasses import dataclass

from rewards.job import Job, Share
from rewards.process import Usage
from rewards.worker import Lost, Worker

PATIENCE = 3


@dataclass(frozen=True)
class Limits:
    """Bounds of a pool: `deadline` in seconds a check, `waiting` in items.

    A worker is replaced between two items after `checks` of them, or once it holds `growth` bytes
    more than when it was new.
    """

    workers: int = 1
    deadline: float = 10.0
    waiting: int = 4096
    checks: int = 20_000
    growth: int = 256 * 2**20


class Watch:
    """Over one worker; to be called every now and then, with what the worker's process has used.

    `newborn` is what it used when it was new.
    """

    def __init__(self, limits: Limits, newborn: Usage | None) -> None:
        self._limits = limits
        self._newborn = newborn
        self._job: Job | Share | None = None
        self._cpu = 0.0
        self._suspected = False

    def late(self, worker: Worker, used: Usage | None, now: float) -> Lost | None:
        """The reason to kill it if the check is late, and was when it was last asked.

        Twice, since after a pause of ours the verdict may lie unread.
        """
        job = worker.assigned[0] if worker.assigned else None
        if job is not self._job:
            self._job, self._cpu, self._suspected = job, used.cpu if used else 0.0, False
        if job is None or (cause := self._over(now - worker.since, used)) is None:
            return None
        if not self._suspected:
            self._suspected = True
            return None
        return Lost(cause, f"no verdict within {self._limits.deadline:g} s")

    def _over(self, clock: float, used: Usage | None) -> str | None:
        deadline = self._limits.deadline
        busy = clock if used is None else used.cpu - self._cpu
        if clock >= deadline and busy >= 0.9 * deadline:
            return "deadline"
        return "stalled" if clock >= PATIENCE * deadline else None

    def worn(self, worker: Worker, used: Usage | None) -> bool:
        """Whether it is to be replaced once it is idle."""
        if used is None or self._newborn is None:
            return worker.checks >= self._limits.checks
        grown = used.memory - self._newborn.memory
        return worker.checks >= self._limits.checks or grown > self._limits.growth
