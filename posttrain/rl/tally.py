"""What the verifiers said of a run's trajectories, by source, status and reason.

A response its verifier could not survive is scored 0, `unverifiable`; a policy that learns to
produce such responses is training on a fault, so that more than a share of them ends the run.
"""

import threading
from collections import Counter, deque
from collections.abc import Mapping
from statistics import mean

WINDOW = 1000
"""A source's latest verdicts, of which the share is taken; judged as if there were that many."""

UNVERIFIABLE = "unverifiable"
"""The reason of such a verdict; the reward service's word."""

RUNNER = "rl_runner"
"""Name of the actor that runs the trainer and has the tally; agent loops find it by that."""


class Tally:
    """Counts verdicts in any thread; `limit` is the share of a source's unverifiable ones."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._latest: dict[str, deque[bool]] = {}
        self._seconds: list[float] = []

    def add(self, source: str, status: str, reason: str, seconds: float) -> None:
        """Take in one verdict, which took `seconds`."""
        with self._guard:
            self._seconds.append(seconds)
            self._counts[f"verdicts.{source}.{status}{'.' if reason else ''}{reason}"] += 1
            latest = self._latest.setdefault(source, deque(maxlen=WINDOW))
            latest.append(reason == UNVERIFIABLE)

    def count(self, counts: Mapping[str, int]) -> None:
        """Take in what else was counted, by the name of its figure."""
        with self._guard:
            self._counts.update(counts)

    def check(self) -> None:
        """RuntimeError, naming the source, where one is above the limit."""
        with self._guard:
            found = {source: (sum(latest), len(latest)) for source, latest in self._latest.items()}
        for source, (unverifiable, seen) in found.items():
            if unverifiable > self._limit * WINDOW:
                raise RuntimeError(
                    f"source {source}: {unverifiable} of the last {seen} responses were "
                    f"unverifiable (limit {self._limit:.1%} of {WINDOW}); they crash or exhaust "
                    "their verifier: look at them in its ledger, and repair the verifier"
                )

    def metrics(self) -> Mapping[str, float]:
        """Counts since the last call, e.g. `verdicts.sums.scored.mismatch`.

        `seconds_verdict` is what a verdict took on average, waiting included.
        """
        with self._guard:
            counts, self._counts = self._counts, Counter()
            seconds, self._seconds = self._seconds, []
        figures = {name: float(count) for name, count in sorted(counts.items())}
        return ({"seconds_verdict": mean(seconds)} if seconds else {}) | figures
