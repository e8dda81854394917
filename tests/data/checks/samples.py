"""Datasets of a few rows, and the tiny tokenizer, for tests of the checks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.checks import module
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.report import Outcome
from posttrain.data.checks.rows import Dataset, Fault, Place, Row
from posttrain.data.tokenizer import row_texts, train_tokenizer


@cache
def chat() -> ChatFormat:
    """The format over a tokenizer trained on dialogues."""
    rows = tiny.dialogues(0, 400)
    return ChatFormat.from_tokenizer(
        train_tokenizer((text for row in rows for text in row_texts(row)), 900)
    )


@cache
def chatml() -> ChatFormat:
    """ChatML over a tokenizer trained on the same."""
    texts = (text for row in tiny.dialogues(0, 400) for text in row_texts(row))
    return ChatFormat.from_tokenizer(train_tokenizer(texts, 900, format="chatml"))


def dialogue(question: str, answer: str, **more: Any) -> dict[str, Any]:
    """A conversation of one question and its answer."""
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages, "tools": [], "deliberation": False, **more}


def dataset(
    rows: Sequence[Mapping[str, Any] | str], name: str = "talk", licence: str | None = None
) -> Dataset:
    """Rows as a dataset; a text stands for a broken row with this problem."""

    def read() -> Iterator[Row | Fault]:
        for number, row in enumerate(rows, 1):
            place = Place(name, f"{name}.jsonl", number)
            yield Fault(place, "", row) if isinstance(row, str) else Row(place, row)

    return Dataset(name, f"digest of {name}", read, licence)


def checked(name: str, data: Dataset, *benchmarks: Dataset, **asked: Any) -> Outcome:
    """The outcome of check `name`."""
    check = module(name)
    inputs = Inputs([data], seed=3, benchmarks=benchmarks, chat=chat())
    outcome = check.run(inputs, check.Parameters(**asked))
    assert isinstance(outcome, Outcome)
    return outcome


def removed(outcome: Outcome) -> list[int]:
    """The numbers of the rows removed."""
    return sorted(place.number for place in outcome.removed)
