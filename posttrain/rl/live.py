"""Signs of the parts of a run that goes on: trainer, rollouts and verdicts, and whose move it is.

Each part signs as it goes on itself, and never for another; the same news at most once a second,
and at once when it begins to wait for somebody else, or no more.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from posttrain import signs
from posttrain.rl.account import Account

PARTS = ("trainer", "rollouts", "verdicts")

_PACE = 1.0
"""Seconds between signs of one part that waits for the same."""


class Live:
    """Leaves signs in the work folder of the stage; `clock` gives seconds."""

    def __init__(self, work: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._work, self._clock = work, clock
        self._last: dict[str, tuple[str, float]] = {}

    def begin(self) -> None:
        """The run starts, or starts again: what an earlier attempt said holds no more."""
        self._note("trainer", "starts")
        self._note("rollouts", "none yet", "trainer")
        self._note("verdicts", "none yet", "rollouts")

    def end(self) -> None:
        """The run has no parts any more; what else its stage does is not theirs."""
        for part in PARTS:
            signs.ended(self._work, part)

    def waits(self, step: int) -> None:
        """The trainer has no batch for `step` yet."""
        self._note("trainer", f"waits for batch {step}", "rollouts")

    def updates(self, step: int) -> None:
        """The trainer is at work on `step`."""
        self._note("trainer", f"updates in step {step}")

    def watches(self, step: int) -> None:
        """The trainer awaits the held-out evaluation of the weights of `step`."""
        self._note("trainer", f"waits for the held-out evaluation of step {step}", "rollouts")

    def generated(self, account: Account) -> None:
        """A response began or is complete; rollouts wait for verdicts once nothing is left."""
        now = _states(account)
        if now["verifying"]:
            self._verifying(now)
        told = f"{now['generating']} generating, {now['queued']} queued"
        self._note("rollouts", told, "" if now["generating"] or now["queued"] else _next(now))

    def scored(self, account: Account) -> None:
        """A verdict is there."""
        self._verifying(_states(account))

    def _verifying(self, now: Counter[str]) -> None:
        waits_for = "rewards" if now["verifying"] else "rollouts"
        self._note("verdicts", f"{now['verifying']} verifying", waits_for)

    def _note(self, part: str, doing: str, waits_for: str = "") -> None:
        now = self._clock()
        awaited, since = self._last.get(part, (None, 0.0))
        if awaited != waits_for or now - since >= _PACE:
            signs.note(self._work, part, doing, waits_for)
            self._last[part] = (waits_for, now)


def _next(now: Counter[str]) -> str:
    return "verdicts" if now["verifying"] else "trainer"


def _states(account: Account) -> Counter[str]:
    """Prompts in flight by their state."""
    return Counter(account.prompts[number].state for number in account.live)
