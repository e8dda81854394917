"""docs/training.md: its stages are valid, and every key of sft and select is on the page."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from posttrain.stages import select, sft
from posttrain.training.schedules import ScheduleConfig

PAGE = Path(__file__).parents[2] / "docs/training.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
_OF_ALL_STAGES = {"from", "shares_of", "on_exhausted", "threads"}


@pytest.mark.parametrize("block", BLOCKS)
def test_its_stages_are_valid(block: str) -> None:
    (stage,) = yaml.safe_load(block).values()
    if (kind := stage.pop("kind")) == "select":
        assert select.Config.model_validate(stage).inputs() == {"from.long": "long"}
        return
    assert kind == "sft"
    needed: dict[str, Any] = {"data": "rows", "steps": 1, "optimizer": {"adamw": {"lr": 1e-3}}}
    found = sft.Config.model_validate(needed | stage)
    assert found.cores() == found.ranks * found.threads


def test_every_key_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    models = sft.Config.model_fields | select.Config.model_fields
    keys = {field.alias or name for name, field in models.items()}
    assert [key for key in sorted(keys - _OF_ALL_STAGES) if key not in text] == []
    assert [name for name in ScheduleConfig.model_fields if f"`{name}`" not in text] == []
