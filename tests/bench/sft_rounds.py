"""A trainer as a process that takes optimizer steps when it is told to, and says what they cost.

Needs nothing but Python: it also runs where only TRL is installed. Memory is counted from after
the imports to the highest point since.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Spec(NamedTuple):
    """What all trainers are given. `bins[b][d]` is a document: its ids and its mask.

    A step trains on `batch` bins, `steps` steps are a round.
    """

    model: str
    bins: list[list[dict[str, list[int]]]]
    capacity: int
    batch: int
    steps: int
    threads: int
    rate: float

    @property
    def tokens(self) -> int:
        """Tokens of one round."""
        bins = self.bins[: self.batch * self.steps]
        return sum(len(each["ids"]) for packed in bins for each in packed)

    def batches(self) -> Iterator[Sequence[Any]]:
        """The batches of one round after another: all rounds train on the same bins."""
        while True:
            for at in range(0, self.batch * self.steps, self.batch):
                yield self.bins[at : at + self.batch]


def spec() -> Spec:
    """The one that the command line names."""
    return Spec(**json.loads(Path(sys.argv[1]).read_text()))


class Rounds:
    """Takes steps in rounds; between two of them it waits for a line on standard input."""

    def __init__(self, steps: int) -> None:
        self._steps, self._taken, self._imported = steps, 0, _resident("VmRSS")
        self._losses: list[float] = []

    def begin(self) -> None:
        """Before each step."""
        if self._taken % self._steps == 0:
            if not sys.stdin.readline():
                sys.exit()
            self._losses = []
            self._started, self._used = time.perf_counter(), time.process_time()

    def end(self, loss: float) -> None:
        """After each step."""
        self._taken += 1
        self._losses.append(loss)
        if self._taken % self._steps == 0:
            found = {
                "seconds": time.perf_counter() - self._started,
                "cpu": time.process_time() - self._used, "loss": self._losses[0],
                "growth": _resident("VmHWM") - self._imported,
            }  # fmt: skip
            print("round", json.dumps(found), flush=True)


def run(given: Spec, step: Callable[[Sequence[Any]], float], rounds: Rounds) -> None:
    """Serve rounds of `step`, which returns the loss of a batch, until input ends."""
    for batch in given.batches():
        rounds.begin()
        rounds.end(step(batch))


def _resident(field: str) -> int:
    """Kilobytes of memory: `VmRSS` now, `VmHWM` at most."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0])
