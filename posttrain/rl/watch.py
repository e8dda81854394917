"""Held-out evaluation beside the training: on the rollout servers, in a thread of its own.

The protocol is fixed: no deliberation, the suite's attempts, temperature and length, verdicts of
the reward service. The trainer never waits for it; so weights may change while it runs, and each
result says from which to which they did. One evaluation at a time: what is due meanwhile is left
out, but for the last step's, which is awaited. What could not be judged is neither right nor wrong:
its prompt is left out and counted.
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from posttrain.store import write_durably
from rewards.wilson import interval

AT_ONCE = 32
"""Held-out responses that are generated at a time: the rest of the servers is for training."""

_PACE = 0.5
"""Seconds between looks at an evaluation that is awaited."""

Row = Mapping[str, Any]


class Attempt(NamedTuple):
    """One response: `score` is None where it was not judged; `versions` are first and last."""

    score: float | None
    tokens: int
    complete: bool
    versions: tuple[int, int]


Try = Callable[[Row], Awaitable[Attempt]]
"""Generates and judges one response to a held-out prompt."""


class Results:
    """The results so far, one JSON line each; those after step `resumed` are made again."""

    def __init__(self, path: Path, resumed: int) -> None:
        self._path = path
        self.rows = [row for row in read(path) if row["step"] <= resumed]
        write_durably(path, "".join(json.dumps(row) + "\n" for row in self.rows))

    def add(self, row: dict[str, Any]) -> None:
        """Append one result."""
        self.rows.append(row)
        with self._path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def latest(self) -> dict[str, float]:
        """Of each suite the last accuracy, its interval, and the step of the weights."""
        return {
            f"watch.{row['suite']}.{name}": float(row[name])
            for row in self.rows
            for name in ("accuracy", "low", "high", "step")
            if name in row
        }

    def of(self, step: int) -> set[str]:
        """The suites on which the weights of `step` were measured."""
        return {row["suite"] for row in self.rows if row["step"] == step}


def read(path: Path) -> list[dict[str, Any]]:
    """The results in a file; a last line that a crash cut short is none."""
    whole = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in whole if line.endswith("\n")]


class Watch:
    """Evaluates the frozen `rows` (of several suites) by `attempt`; `alive` is called for each."""

    def __init__(
        self,
        rows: Sequence[Row],
        attempt: Try,
        results: Results,
        alive: Callable[[], None],
        every: int,
    ) -> None:
        self._every = every
        self._rows, self._attempt, self.results, self._alive = rows, attempt, results, alive
        self._thread: threading.Thread | None = None
        self._fault: BaseException | None = None
        self._event = 0.0

    def due(self, step: int) -> bool:
        """Whether the weights of `step` are among those to be measured."""
        return step % self._every == 0

    def has(self, step: int) -> bool:
        """Whether the weights of `step` were measured, on all suites: a crash may leave some."""
        return {row["suite"] for row in self._rows} <= self.results.of(step)

    def begin(self, step: int) -> bool:
        """Begin to evaluate the weights of `step`; False if the one before is still going on.

        Raises what an earlier one raised.
        """
        self._raise()
        if self._thread and self._thread.is_alive():
            return False
        self._event = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(step,), daemon=True)
        self._thread.start()
        return True

    def finish(self, step: int, patience: float) -> None:
        """Have the weights of `step` evaluated, those under way first.

        TimeoutError if no attempt ends for `patience` seconds.
        """
        self._join(patience)
        if not self.has(step):
            self.begin(step)
            self._join(patience)

    def _join(self, patience: float) -> None:
        while self._thread and self._thread.is_alive():
            self._thread.join(min(patience, _PACE))
            if time.monotonic() - self._event > patience:
                raise TimeoutError(f"the held-out evaluation stood still for {patience:.0f} s")
        self._raise()

    def _raise(self) -> None:
        if self._fault:
            raise self._fault

    def _run(self, step: int) -> None:
        try:
            asyncio.run(self._measure(step))
        except BaseException as fault:  # noqa: BLE001  # Raised where the trainer looks.
            self._fault = fault

    async def _measure(self, step: int) -> None:
        begun, room = time.monotonic(), asyncio.Semaphore(AT_ONCE)

        async def tried(row: Row) -> Attempt:
            async with room:
                attempt = await self._attempt(row)
            self._event = time.monotonic()
            self._alive()
            return attempt

        found = await asyncio.gather(
            *(asyncio.gather(*(tried(row) for _ in range(row["attempts"]))) for row in self._rows)
        )
        seconds = round(time.monotonic() - begun, 2)
        for suite in dict.fromkeys(row["suite"] for row in self._rows):
            own = [each for row, each in zip(self._rows, found, strict=True)
                   if row["suite"] == suite]  # fmt: skip
            self.results.add({"step": step, "suite": suite, "seconds": seconds, **figures(own)})


def figures(prompts: Sequence[Sequence[Attempt]]) -> dict[str, Any]:
    """Figures of a suite, from the attempts at each of its prompts.

    `accuracy` is the mean over prompts that were judged, `n` their number, `lost` that of the
    others. `low` and `high` are Wilson's 95 % interval as if each had been tried once, which is
    wider than it need be, never narrower.
    """
    judged = [
        fmean(attempt.score for attempt in tried if attempt.score is not None)
        for tried in prompts
        if all(attempt.score is not None for attempt in tried)
    ]
    every = [attempt for tried in prompts for attempt in tried]
    found: dict[str, Any] = {
        "n": len(judged), "lost": len(prompts) - len(judged),
        "complete": fmean(attempt.complete for attempt in every),
        "tokens": fmean(attempt.tokens for attempt in every),
        "versions": [min(a.versions[0] for a in every), max(a.versions[1] for a in every)],
    }  # fmt: skip
    if judged:
        low, high = interval(round(sum(judged)), len(judged))
        found |= {"accuracy": fmean(judged), "low": low, "high": high}
    return found
