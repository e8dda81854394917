"""docs/simulation.md works, as tests/page.py says, and names all that there is."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import LognormalConfig
from posttrain.simulation.rules import CountRule, VerlRule, WindowedRule
from posttrain.simulation.scoring import RewardConfig
from posttrain.simulation.settings import (
    RolloutConfig,
    Settings,
    SyncConfig,
    SynchronousConfig,
    TrainerConfig,
)
from posttrain.simulation.table import COLUMNS
from tests.page import BLOCK, DOCS, follow

PAGE = (DOCS / "simulation.md").read_text()


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    follow(PAGE, folder)
    return folder


def test_the_page_does_what_it_says(followed: Path) -> None:
    rows = json.loads((followed / "rows.json").read_text())
    steps = {row["rule"]: row["step_seconds"] for row in rows}
    assert steps == {"synchronous": 3.0, "synchronous, streamed": 3.0, "count 1": 3.5 + 1 / 4}
    assert len(BLOCK.findall(PAGE)) == 2


def test_the_page_names_every_setting() -> None:
    models = (
        Settings, RolloutConfig, DecodeConfig, TrainerConfig, SyncConfig, RewardConfig,
        SynchronousConfig, LognormalConfig,
    )  # fmt: skip
    for model in models:
        for name in model.model_fields:
            assert re.search(rf"`{name}\b", PAGE) or re.search(rf"\b{name}: ", PAGE), name


def test_the_page_names_every_rule_and_column() -> None:
    rules = [get_args(rule.model_fields["rule"].annotation) for rule in (CountRule, WindowedRule)]
    names = [name for found in rules for name in found]
    names += get_args(VerlRule.model_fields["rule"].annotation)
    for name in names:
        assert f"| `{name}` |" in PAGE
    told = " ".join(re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE))
    for column in COLUMNS[1:]:
        name = column.partition(":")[0] if column.startswith("idle") else column
        assert name in told or column in ("trainer", "reward"), column
