"""Source documents: read from frozen rows, drawn by length until a budget of tokens is spent.

Always holds: no document is drawn twice; each source gives an equal part of every level's budget,
or all it has.
"""

import json
import random
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data import splits
from posttrain.data.longcontext.conversation import Row
from posttrain.data.longcontext.tally import Tally
from posttrain.data.longcontext.windows import Level, level
from posttrain.names import Name

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

Target = Annotated[int, Field(ge=64, le=2**20)]
"""The length in tokens that rows are made for."""


class Budget(BaseModel):
    """Tokens of source documents for each level."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hard: int = Field(ge=0)
    easy: int = Field(ge=0)


class FromDocuments(BaseModel):
    """Rows of at most `target` tokens on the training rows of `documents`.

    `seed`, where given, takes the place of the recipe's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: tuple[Name, ...] = Field(min_length=1)
    tokenizer: Name
    target: Target
    tokens: Budget
    seed: int | None = None

    def inputs(self) -> dict[str, str]:
        """The tokenizer and each source."""
        return {"tokenizer": self.tokenizer, **{f"data.{name}": name for name in self.documents}}


class Texts(Protocol):
    """Texts by their number: a list of them, or those of a split."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> str:
        """The text with this number."""


class Document(NamedTuple):
    """A source document; `ids` are its tokens, without any around it."""

    text: str
    ids: list[int]
    level: Level


Task = Callable[["ChatFormat", Document, random.Random], Row | str]
"""Makes a document's row, or says in a word why it makes none."""


class SplitTexts:
    """The texts of a split, read one by one: `text`, or a corpus row's two parts."""

    def __init__(self, path: Path) -> None:
        self._path, self._files = path, splits.files(path)
        self._shards, self._starts = array("q"), array("q")
        for number, file in enumerate(self._files):
            with file.open("rb") as lines:
                sizes = [0, *accumulate(map(len, lines))][:-1]
            self._starts.extend(sizes)
            self._shards.extend([number] * len(sizes))

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> str:
        """ValueError names a row that cannot be read or has no text."""
        with self._files[self._shards[index]].open("rb") as lines:
            lines.seek(self._starts[index])
            line = lines.readline()
        try:
            row = json.loads(line)
            parts = [row["text"]] if "text" in row else [row["prompt"], row["continuation"]]
            return "".join(parts)
        except (ValueError, TypeError, KeyError) as fault:
            raise ValueError(
                f"row {index + 1} of {self._path} is no document ({fault!r}); give each row a "
                "`text`, or a `prompt` and a `continuation`"
            ) from None


def made(
    task: Task,
    sources: Mapping[str, Texts],
    chat: "ChatFormat",
    asked: FromDocuments,
    draw: random.Random,
) -> tuple[list[Row], Mapping[str, float]]:
    """The rows of a task, and their figures (`Tally.figures`); ValueError if there are none."""
    tally = Tally(chat, asked.target)
    rows = []
    for document in drawn(sources, chat, asked, draw, tally):
        row = task(chat, document, draw)
        if isinstance(row, str):
            tally.leave_out(row)
        elif admitted := tally.admit(row | {"level": document.level}):
            rows.append(admitted)
    if not rows:
        told = ", ".join(f"{name} {count:.0f}" for name, count in tally.figures().items() if count)
        raise ValueError(
            f"no document of {', '.join(sorted(sources))} makes a row for target {asked.target} "
            f"({told}); give documents of a quarter of the target up to all of it"
        )
    return rows, tally.figures()


def drawn(
    sources: Mapping[str, Texts],
    chat: "ChatFormat",
    asked: FromDocuments,
    draw: random.Random,
    tally: Tally,
) -> Iterator[Document]:
    """Documents at random, from each source until its part of the budget is reached."""
    for name in sorted(sources):
        texts = sources[name]
        left: dict[Level, int] = {
            "hard": asked.tokens.hard // len(sources),
            "easy": asked.tokens.easy // len(sources),
        }
        for index in draw.sample(range(len(texts)), len(texts)):
            if max(left.values()) <= 0:
                break
            document = _document(texts[index], chat, asked.target)
            if isinstance(document, str):
                tally.leave_out(document)
            elif left[document.level] > 0:
                left[document.level] -= len(document.ids)
                tally.draw(document.level, len(document.ids))
                yield document


def _document(text: str, chat: "ChatFormat", target: int) -> Document | str:
    try:
        ids = chat.encode(text)
    except ValueError:
        return "control_token"
    found = level(len(ids), target)
    return Document(text, ids, found) if found else "outside_windows"
