"""Every labelled case of mathematics and of exact match, by itself (see their `source` fields)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rewards.schema import Item
from rewards.verifiers import answer, math

CASES = Path(__file__).parent / "cases"
SETTINGS = ("normaliser", "tool")


def cases(kind: str) -> Iterator[Any]:
    for line in (CASES / f"{kind}.jsonl").read_text().splitlines():
        row = json.loads(line)
        yield pytest.param(row, id=row["id"])


def item(row: dict[str, Any]) -> Item:
    parameters = {key: row[key] for key in SETTINGS if key in row}
    return Item(
        id=row["id"], verifier=row["kind"], response=row["response"], gold=row["gold"],
        parameters=parameters,
    )  # fmt: skip


@pytest.mark.parametrize("row", cases("math"))
def test_math(row: dict[str, Any]) -> None:
    assert (math.verify(item(row)).score or 0) == row["expected"]


@pytest.mark.parametrize("row", cases("answer"))
def test_answer(row: dict[str, Any]) -> None:
    assert (answer.verify(item(row)).score or 0) == row["expected"]
