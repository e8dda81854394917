"""The registry: every generator makes what its parameters ask for."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from posttrain.data.generators import GENERATORS, Derived, Generator

ASKED: dict[str, dict[str, Any]] = {
    "tiny.corpus": {"documents": 8, "holdout": 4},
    "tiny.dialogues": {"rows": 8},
    "tiny.long_documents": {"rows": 8, "tokens": [128]},
    "tiny.prompts": {"rows": 8, "holdout": 4, "thinking": "50%"},
    "tiny.formulas": {"rows": 8, "holdout": 4, "thinking": "50%"},
    "tiny.pairs": {"rows": 8, "holdout": 4},
    "tiny.manners": {"rows": 8},
    "tiny.requests": {"rows": 8, "holdout": 4},
    "tiny.needles": {"holdout": 4, "lengths": [64, 128]},
    "probes.refusals": {"holdout": 4, "sort": "harmful"},
    "probes.functions": {"holdout": 10},
    "probes.conversations": {"holdout": 4, "turns": [2, 4]},
    "probes.languages": {"holdout": 4},
    "probes.identity": {"holdout": 4},
}


MADE_OF_NOTHING = [name for name, each in GENERATORS.items() if not isinstance(each, Derived)]


@pytest.mark.parametrize("name", MADE_OF_NOTHING)
def test_splits_have_the_asked_sizes_and_are_json(name: str) -> None:
    generator = GENERATORS[name]
    assert isinstance(generator, Generator)
    splits = generator.make(5, generator.parameters.model_validate(ASKED[name]))
    asked = ASKED[name]
    sizes = {"train": asked.get("rows", asked.get("documents")), "holdout": asked.get("holdout")}
    assert {split: len(list(rows)) for split, rows in splits.items()} == {
        split: size for split, size in sizes.items() if size
    }
    for rows in splits.values():
        assert json.loads(json.dumps(rows)) == rows


@pytest.mark.parametrize("name", GENERATORS)
def test_unknown_and_missing_parameters_are_refused(name: str) -> None:
    model = GENERATORS[name].parameters
    with pytest.raises(ValidationError, match="Extra inputs"):
        model.model_validate({**ASKED.get(name, {}), "shuffle": True})
    with pytest.raises(ValidationError, match="Field required"):
        model.model_validate({})
