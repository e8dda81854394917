"""Comparing two checkpoints prompt by prompt on one suite."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from posttrain.gates.config import Threshold


@dataclass(frozen=True)
class Scores:
    """The scores of each prompt's attempts, and its groups, in the order of the suite's rows.

    `digest` identifies suite and rows: scores with equal digests are of the same prompts.
    """

    attempts: Sequence[Sequence[float]]
    groups: Sequence[Sequence[str]]
    digest: str

    def of(self, group: str) -> "Scores":
        """The part that belongs to `group`."""
        kept = [n for n, names in enumerate(self.groups) if group in names]
        return Scores([self.attempts[n] for n in kept], [self.groups[n] for n in kept], self.digest)


@dataclass(frozen=True)
class Comparison:
    """One paired test; `group` is empty for all prompts, `p` is not corrected yet."""

    group: str
    test: str
    prompts: int
    before: float
    after: float
    bar: float
    p: float
    digest: str

    @property
    def gain(self) -> float:
        """What the candidate has over the baseline."""
        return self.after - self.before


def compare(gate: Threshold, ours: Scores, theirs: Scores) -> list[Comparison]:
    """The tests that `gate` asks for: over all prompts first, then over each group.

    ValueError if the two cannot be paired, or not by the test that the gate states.
    """
    if gate.digest and not ours.digest.startswith(gate.digest):
        raise ValueError(f"the suite's digest is {ours.digest[:12]}, the gate pins {gate.digest}")
    if ours.digest != theirs.digest or len(ours.attempts) != len(theirs.attempts):
        raise ValueError("the two were measured on different prompts")
    return list(_comparisons(gate, ours, theirs))


def _comparisons(gate: Threshold, ours: Scores, theirs: Scores) -> Iterator[Comparison]:
    yield _comparison(gate, "", gate.bar, ours, theirs)
    if gate.groups_not_worse_than is None:
        return
    for group in sorted({name for names in ours.groups for name in names}):
        yield _comparison(
            gate, group, -gate.groups_not_worse_than, ours.of(group), theirs.of(group)
        )


def _comparison(
    gate: Threshold, group: str, bar: float, ours: Scores, theirs: Scores
) -> Comparison:
    from posttrain.gates import paired

    after, before = ([fmean(scores) for scores in side.attempts] for side in (ours, theirs))
    test = gate.test or ("mcnemar" if _counted(ours, theirs) else "bootstrap")
    if test == "mcnemar":
        if not _counted(ours, theirs):
            raise ValueError(
                "McNemar's test is for prompts tried once that are right or wrong; state "
                "test: bootstrap"
            )
        wins = sum(a > b for a, b in zip(after, before, strict=True))
        losses = sum(a < b for a, b in zip(after, before, strict=True))
        p = paired.binary(wins, losses, len(after), bar)
    else:
        p = paired.bootstrap([a - b for a, b in zip(after, before, strict=True)], bar)
    return Comparison(group, test, len(after), fmean(before), fmean(after), bar, p, ours.digest)


def _counted(*sides: Scores) -> bool:
    """Whether each prompt was tried once, and is right or wrong."""
    return all(len(s) == 1 and s[0] in (0.0, 1.0) for side in sides for s in side.attempts)
