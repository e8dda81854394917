"""What a recipe may say of a suite."""

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from posttrain.evaluation.suites import Answers, Suite

SUITE: TypeAdapter[Suite] = TypeAdapter(Suite)


def test_the_kind_decides() -> None:
    suite = SUITE.validate_python(
        {"kind": "answers", "data": "prompts.holdout", "attempts": 4, "temperature": 1.0}
    )
    assert isinstance(suite, Answers)
    assert (suite.split, suite.verifier) == ("holdout", "answer")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"kind": "continuation", "data": "corpus"}, "write ENTRY.train or ENTRY.holdout"),
        (
            {"kind": "continuation", "data": "corpus.validation"},
            "write ENTRY.train or ENTRY.holdout",
        ),
        ({"kind": "needles", "data": "needles.holdout", "attempts": 2}, "Extra inputs"),
        ({"kind": "answers", "data": "prompts.holdout", "attempts": 4}, "temperature: 1.0"),
        ({"kind": "charter", "data": "prompts.holdout"}, "'continuation', .*'long_context'"),
    ],
)
def test_what_makes_no_sense_is_refused(said: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SUITE.validate_python(said)


def test_planning_imports_no_torch() -> None:
    program = (
        "import sys, posttrain.evaluation.suites, posttrain.data.generators\n"
        "print([name for name in ('torch', 'transformers', 'tokenizers') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "[]\n"
