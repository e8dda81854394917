"""How verdicts compare with labels. A fault of the service is neither right nor wrong: unknown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from rewards.audit.corpus import Case
from rewards.schema import Verdict

Finding = Literal["agreed", "false_accept", "false_reject", "fault"]


def finding(right: bool, verdict: Verdict) -> Finding:
    """What `verdict` says about a response that is `right` or not.

    A wrong response must earn nothing, which an abstention fulfils; a right one must earn all.
    """
    if verdict.status == "failed" or verdict.reason == "unknown_verifier":
        return "fault"
    if right:
        return "agreed" if verdict.score == 1 else "false_reject"
    return "false_accept" if verdict.score else "agreed"


@dataclass(frozen=True)
class Outcome:
    """A case and what the service said about it."""

    case: Case
    verdict: Verdict

    @property
    def finding(self) -> Finding:
        """See `finding`."""
        return finding(self.case.right, self.verdict)

    def record(self) -> dict[str, Any]:
        """What people need to look into it, as JSON content."""
        return {
            "id": self.case.item.id,
            "kind": self.case.kind,
            "group": self.case.group,
            "certainty": "clear" if self.case.clear else "policy",
            "finding": self.finding,
            "expected": int(self.case.right),
            "note": self.case.note,
            "verdict": self.verdict.model_dump(mode="json", exclude_none=True),
            "item": self.case.item.model_dump(mode="json", exclude_none=True),
        }


@dataclass(frozen=True)
class Tally:
    """Counts over clear cases."""

    clear: int
    false_accepts: int
    false_rejects: int
    faults: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Self:
        """The counts of the clear ones among `outcomes`."""
        found = [outcome.finding for outcome in outcomes if outcome.case.clear]
        wrong = (found.count("false_accept"), found.count("false_reject"), found.count("fault"))
        return cls(len(found), *wrong)

    @property
    def accuracy(self) -> float:
        """The share of clear cases that agree; 0 where there is none, since nothing is known."""
        agreed = self.clear - self.false_accepts - self.false_rejects - self.faults
        return agreed / self.clear if self.clear else 0.0

    def line(self, name: str) -> str:
        """`name accuracy=... clear=... false_accepts=... false_rejects=...`, and faults if any."""
        counts = asdict(self)
        if not self.faults:
            del counts["faults"]
        text = " ".join(f"{key}={value}" for key, value in counts.items())
        return f"{name} accuracy={self.accuracy:.3f} {text}"
