"""Verdicts against labels."""

import pytest

from rewards.audit.corpus import Case
from rewards.audit.tally import Outcome, Tally, finding
from rewards.schema import Item, Verdict, abstained, failed, scored

ITEM = Item(id="i", verifier="math", response="r", gold="g")
ALL, HALF, NOTHING = scored(ITEM, 1.0), scored(ITEM, 0.5), scored(ITEM, 0.0)
ABSTAINED, FAILED = abstained(ITEM, "bad_gold", "d"), failed(ITEM, "crash", "d")
UNSERVED = abstained(ITEM, "unknown_verifier", "d")


def outcome(right: bool, verdict: Verdict, clear: bool = True) -> Outcome:
    return Outcome(Case("math", "", ITEM, right, clear, "n"), verdict)


@pytest.mark.parametrize(
    ("right", "verdict", "expected"),
    [
        (True, ALL, "agreed"), (False, ALL, "false_accept"),
        (True, HALF, "false_reject"), (False, HALF, "false_accept"),
        (True, NOTHING, "false_reject"), (False, NOTHING, "agreed"),
        (True, ABSTAINED, "false_reject"), (False, ABSTAINED, "agreed"),
        (True, FAILED, "fault"), (False, FAILED, "fault"), (False, UNSERVED, "fault"),
    ],
)  # fmt: skip
def test_findings(right: bool, verdict: Verdict, expected: str) -> None:
    assert finding(right, verdict) == expected


def test_a_line_as_it_is_read_by_others() -> None:
    outcomes = [outcome(True, ALL)] * 137 + [outcome(True, NOTHING)] * 2
    line = "math accuracy=0.986 clear=139 false_accepts=0 false_rejects=2"
    assert Tally.of(outcomes).line("math") == line


def test_policy_cases_do_not_count() -> None:
    outcomes = [outcome(True, ALL), outcome(False, ALL, clear=False)]
    assert Tally.of(outcomes) == Tally(1, 0, 0, 0)


def test_a_fault_is_not_accurate() -> None:
    tally = Tally.of([outcome(False, FAILED), outcome(False, NOTHING)])
    assert tally.accuracy == 0.5
    assert tally.line("x").endswith("false_rejects=0 faults=1")


def test_without_cases_nothing_is_accurate() -> None:
    assert Tally.of([]).accuracy == 0.0


def test_a_record_holds_all_to_look_into_it() -> None:
    record = outcome(True, HALF).record()
    assert (record["finding"], record["expected"], record["note"]) == ("false_reject", 1, "n")
    assert record["verdict"]["score"] == 0.5
    assert record["item"]["gold"] == "g"
