import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import manifest
from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion
from posttrain.judging.sensitivity import classed, faulted, figures, opinions
from posttrain.stages import charter
from posttrain.stages.sensitivity import Config
from tests.judging.test_stages import artifact, run
from tests.rewards.service import serving


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


def test_the_stage_keeps_the_prompts_of_its_classes(tmp_path: Path) -> None:
    """By a rule, prompts that say `definitely` are of class 0 and all others of class 3."""
    for name in ("prompts", "service"):
        (tmp_path / name).mkdir()
    place = Path("recipes/charters").absolute() / "recipe.yaml"
    manual, _ = run(
        "charter", charter.Config(charter="tiny.md").placed("manual", place), {}, tmp_path
    )
    splits = {
        "train": [prompt("Is it definitely so?"), prompt("Is it?"), prompt("Why?")],
        "holdout": [prompt("It definitely is."), prompt("What then?")],
    }
    manifest.write(tmp_path / "prompts", splits, licence="CC0-1.0")
    inputs = {"data.prompts": artifact(tmp_path / "prompts"), "charter": manual}
    asked = {
        "data": "prompts", "scale": 3, "keep": [2, 3],
        "judge": {"verifier": "rules", "charter": "manual", "articles": ["certainty"]},
    }  # fmt: skip
    with serving(tmp_path / "service", "--verifiers", "rules") as service:
        found, metrics = run(
            "sensitivity", Config.model_validate(asked), inputs, tmp_path, service.url
        )
        none = [prompt("Is it definitely so?")]
        manifest.write(tmp_path / "prompts", {"train": none})
        with pytest.raises(ValueError, match=r"no prompt of .* is of class 2 to 3"):
            run("sensitivity", Config.model_validate(asked), inputs, tmp_path / "none", service.url)
    kept = {
        split: [json.loads(line) for line in (found.path / f"{split}.jsonl").open()]
        for split in splits
    }
    assert kept["train"] == [row | {"sensitivity": 3} for row in splits["train"][1:]]
    assert kept["holdout"] == [splits["holdout"][1] | {"sensitivity": 3}]
    assert (metrics["class.0"], metrics["class.3"], metrics["kept"]) == (2, 3, 3)
    assert manifest.read(found.path).licence == "CC0-1.0"
