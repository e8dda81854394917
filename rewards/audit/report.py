"""What an audit found. Rates come with their uncertainty, and what is unknown counts against us."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue

from rewards.audit.probe import Check
from rewards.wilson import interval


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(_Part):
    """`wrong` of `total` probes; `unknown` ones are faults, of which nothing is known."""

    wrong: int
    unknown: int
    total: int

    @property
    def bounds(self) -> tuple[float, float]:
        """95 % interval of the rate, at worst: each unknown as right below, as wrong above."""
        low, _ = interval(self.wrong, self.total)
        _, high = interval(self.wrong + self.unknown, self.total)
        return low, high

    def __str__(self) -> str:
        low, high = (100 * bound for bound in self.bounds)
        return f"{self.wrong}/{self.total} (95 %: {low:.2f} to {high:.2f} %)"


class Missed(_Part):
    """A probe that was judged wrongly, or not at all."""

    check: Check
    rule: str
    right: bool
    item: dict[str, JsonValue]
    verdict: dict[str, JsonValue]


class Differential(_Part):
    """How often a second implementation agrees; where it does not, labels say who is wrong."""

    reference: str
    compared: int
    agreed: int
    reference_wrong: int
    verifier_wrong: int


class Audited(_Part):
    """One verifier: its error rates, how many probes of each check it passed, and those missed."""

    verifier: str
    digest: str
    false_accepts: Rate
    false_rejects: Rate
    passed: Mapping[Check, tuple[int, int]]
    differential: Differential | None
    missed: Sequence[Missed]

    def lines(self) -> Iterator[str]:
        """The same for people."""
        accepts, rejects = self.false_accepts, self.false_rejects
        yield f"{self.verifier} false_accepts={accepts} false_rejects={rejects}"
        for check, (passed, total) in self.passed.items():
            yield f"  {check} {passed}/{total}"
        if (other := self.differential) is not None:
            yield (
                f"  differential {other.agreed}/{other.compared} agree with {other.reference}; of "
                f"the others, by the labels, it is wrong in {other.reference_wrong} and "
                f"{self.verifier} in {other.verifier_wrong}"
            )
        for rule in dict.fromkeys(f"{each.check} {each.rule}" for each in self.missed):
            yield f"  missed: {rule}"


class Report(_Part):
    """An audit of several verifiers, repeatable from `seed` and `probes`."""

    seed: int
    probes: int
    verifiers: Sequence[Audited]

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for audited in self.verifiers:
            yield from audited.lines()

    def exceeded(
        self, *, max_false_accept: float | None = None, max_false_reject: float | None = None
    ) -> Sequence[str]:
        """Which bounds are not shown to hold: the upper end of an interval is what must not pass.

        Too few probes, or verdicts that failed, exceed any bound.
        """
        found = []
        for audited in self.verifiers:
            for name, rate, most in (
                ("false accepts", audited.false_accepts, max_false_accept),
                ("false rejects", audited.false_rejects, max_false_reject),
            ):
                if most is not None and rate.bounds[1] > most:
                    found.append(
                        f"{audited.verifier}: up to {100 * rate.bounds[1]:.2f} % {name} "
                        f"({rate.wrong} wrong and {rate.unknown} unknown of {rate.total}), "
                        f"more than {100 * most:g} %"
                    )
        return found
