import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion
from posttrain.judging.sensitivity import classed, faulted, figures, opinions
from posttrain.stages.sensitivity import Config


class Reader:
    """Grades by how often a text says `I`, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        self.shown += [turn.content or "" for turn in turns]
        assert all(row["gold"] is None for row in rows)
        return [Opinion((turn.content or "").count("I") / 4) for turn in turns]


def prompt(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "gold": ["4"]}


def test_the_prompt_is_what_is_classified() -> None:
    judge = Reader()
    found = opinions(judge, [prompt("2 + 2?"), prompt("Must I? Should I? May I?")])
    assert judge.shown == ["2 + 2?", "Must I? Should I? May I?"]
    assert [classed(each, 4) for each in found] == [0, 3]


@given(score=st.none() | st.floats(0, 1), scale=st.integers(1, 6))
def test_a_class_is_from_0_to_3_or_there_is_none(score: float | None, scale: int) -> None:
    opinion = Opinion(score, fault="" if score is not None else "failed")
    found, kept = classed(opinion, scale), faulted(opinion, scale)
    assert found is None or found in range(4)
    assert (kept.score is None) == (found is None)
    assert (found is None) == bool(kept.fault)


def test_grades_of_1_to_4_are_classes_0_to_3_and_5_is_none() -> None:
    graded = [classed(Opinion((grade - 1) / 4), 4) for grade in range(1, 6)]
    assert graded == [0, 1, 2, 3, None]
    assert figures(graded, 2) == {
        "class.0": 1, "class.1": 1, "class.2": 1, "class.3": 1, "class.none": 1, "kept": 2,
    }  # fmt: skip


@pytest.mark.parametrize("keep", [(2, 1), (0, 4), (-1, 2)])
def test_classes_that_there_are_not_are_refused(keep: tuple[int, int]) -> None:
    asked = {"data": "prompts", "judge": {"verifier": "judge"}, "keep": keep}
    with pytest.raises(ValueError, match="are no classes from 0 to 3"):
        Config.model_validate(asked)


def test_recipes_name_the_judges_texts_by_their_digests() -> None:
    texts = {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path("recipes/charters/judge").glob("*.txt")
    }
    named = {
        found
        for path in Path("recipes").glob("*.yaml")
        for found in re.findall(r"name: (\w+)[,\s]+sha256: (\w{64})", path.read_text())
    }
    assert {"sensitivity", "adherence"} <= {name for name, _ in named}
    for name, sha256 in named:
        assert texts[name] == sha256, name
