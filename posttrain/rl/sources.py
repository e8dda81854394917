"""Each source of a run on its own: does it give its share, and can it be trusted to go on.

A source with a limit of its own on faults is dropped when it exceeds that, with a line that says
so; one whose part of what is trained falls below half of its share is starved, and told with who
holds it up. Decisions alone: whoever asks acts on them.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from posttrain.rl.account import Account

WINDOW = 8
"""Steps over which the part of a source is taken."""

ENOUGH = 10
"""Prompts a source should have given within that, before its part says anything."""

JUDGED = 50
"""A source's latest groups, of which the share of lost ones is taken; as if there were ENOUGH."""

HOLDERS = {
    "filtered": "equal_rewards",
    "dropped.stale": "staleness",
    "dropped.fault": "faults",
    "queued": "rollouts",
    "generating": "rollouts",
    "verifying": "verifier",
    "ready": "trainer",
}
"""What a prompt's state says of who keeps its source from being trained on."""


class Starved(NamedTuple):
    """A source with `part` of what is trained where it should have `share`; `holder` is why."""

    source: str
    part: float
    share: float
    holder: str

    def __str__(self) -> str:
        return (
            f"source {self.source} is {self.part:.0%} of what was trained in the last {WINDOW} "
            f"steps, its share is {self.share:.0%}; held up by: {self.holder.replace('_', ' ')}"
        )


class Faults:
    """Groups lost to faults, by source; `limits` are those that a source is dropped above.

    What those `dropped` before still lose, of what is under way, drops nothing again.
    """

    def __init__(self, limits: Mapping[str, float], dropped: Iterable[str] = ()) -> None:
        self._limits = {**limits, **dict.fromkeys(limits.keys() & set(dropped), 1.0)}
        self._lost = {source: deque[bool](maxlen=JUDGED) for source in limits}

    def limited(self, source: str) -> bool:
        """Whether the losses of `source` are its own affair."""
        return source in self._limits

    def add(self, source: str, lost: bool) -> None:
        """Take in one group of a source that is limited."""
        self._lost[source].append(lost)

    def excess(self) -> dict[str, str]:
        """Source -> why it is to be dropped; each is told once."""
        found = {}
        for source, groups in self._lost.items():
            if sum(groups) > self._limits[source] * max(len(groups), ENOUGH):
                found[source] = (
                    f"{sum(groups)} of its last {len(groups)} groups were lost to faults "
                    f"(limit {self._limits[source]:.0%})"
                )
        for source in found:
            self._lost[source].clear()
            self._limits[source] = 1.0
        return found


class Balance:
    """What each source gave in the last `WINDOW` steps, against `shares` (sum 1).

    `account` is as it was before the first of them; of sources dropped by then none is expected.
    """

    def __init__(self, shares: Mapping[str, float], account: Account) -> None:
        self._shares = dict(shares)
        for source in account.dropped_sources:
            self.drop(source)
        self._totals = deque([_totals(account)], maxlen=WINDOW + 1)

    def drop(self, source: str) -> None:
        """Expect no more of `source`, and more of the others."""
        rest = 1.0 - self._shares.pop(source)
        self._shares = {name: share / rest for name, share in self._shares.items()}

    def step(self, account: Account) -> dict[str, float]:
        """A step is done: prompts trained and filtered in it, `trained.<source>` and so on."""
        now, before = _totals(account), self._totals[-1]
        self._totals.append(now)
        return {
            f"{what}.{source}": float(counts[what] - before.get(source, Counter())[what])
            for source, counts in sorted(now.items())
            for what in ("trained", "filtered")
        }

    def starved(self, account: Account) -> list[Starved]:
        """The sources below half of their share; none before a whole window was seen."""
        if len(self._totals) <= WINDOW:
            return []
        given = {source: self._given(source) for source in self._shares}
        trained = sum(counts["trained"] for counts in given.values())
        return [
            Starved(source, given[source]["trained"] / trained, share, _holder(states))
            for source, share in self._shares.items()
            if share * trained >= ENOUGH and given[source]["trained"] < share * trained / 2
            for states in [given[source] + account.in_flight(source)]
        ]

    def _given(self, source: str) -> Counter[str]:
        last, first = self._totals[-1], self._totals[0]
        return last.get(source, Counter()) - first.get(source, Counter())


def _totals(account: Account) -> dict[str, Counter[str]]:
    return {name: Counter(found) for name, found in account.by_source.items()}


def _holder(states: Counter[str]) -> str:
    """Who has most of the prompts that were not trained."""
    held: Counter[str] = Counter({"order": 0})
    for state, count in states.items():
        if state in HOLDERS:
            held[HOLDERS[state]] += count
    return max(held, key=lambda name: held[name])
