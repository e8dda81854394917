"""Items from a file or a ledger to verdicts, and what came out: counts, and verdicts that flipped.

A line that is no item is an error with its place before anything is scored.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from rewards.client import RewardClient
from rewards.ledger import Ledger, Record, read, verifiers
from rewards.schema import Entry, Verdict, entries

LOT = 4096
"""Items scored before their verdicts are written down."""

PATIENCE = 3600.0
"""Seconds for an item of a lot, most of which it waits for its turn."""

Outcome = tuple[str, str, str]
"""Verifier, status and reason."""

_T = TypeVar("_T")


def read_items(path: Path) -> Iterator[Entry]:
    """The items of a JSONL file; ValueError with file and line where one is none."""
    try:
        file = path.open("rb")
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror})") from None
    with file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _item(line, f"{path}:{number}")


def _item(line: bytes, place: str) -> Entry:
    try:
        found = entries(from_json(line, allow_inf_nan=False))
    except ValidationError as fault:
        error = fault.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, error["loc"])) or "item"
        raise ValueError(f"{place}: {where}: {error['msg']}") from None
    except ValueError as fault:
        raise ValueError(f"{place}: no JSON: {fault}") from None
    if len(found) != 1:
        raise ValueError(f"{place}: give one item a line")
    return found[0]


def lots(things: Iterable[_T]) -> Iterator[list[_T]]:
    """`things` in lists of `LOT`."""
    rest = iter(things)
    while lot := list(islice(rest, LOT)):
        yield lot


def _client(endpoints: Sequence[str]) -> RewardClient:
    """For bulk: requests so small that one of slow checks ends within its time."""
    return RewardClient(endpoints, timeout=PATIENCE, patience=PATIENCE, batch=16)


async def scored_lots(
    client: RewardClient, items: Iterable[Entry]
) -> AsyncIterator[tuple[list[Entry], list[Verdict]]]:
    """Items and their verdicts, lot by lot."""
    for lot in lots(items):
        yield lot, await client.score(lot)


async def digests(client: RewardClient) -> dict[str, str]:
    """Version digest by verifier, as the service publishes them.

    ConnectionError if it does not; ValueError if two endpoints serve different versions.
    """
    found: dict[str, str] = {}
    for status, content in await client.ask("/v1/verifiers"):
        if status != 200:
            said = f"HTTP {status}" if status else content
            raise ConnectionError(f"the service does not say what it serves: {said}")
        for row in content["verifiers"]:
            if found.setdefault(row["name"], row["digest"]) != row["digest"]:
                raise ValueError(f"the endpoints serve different versions of {row['name']}")
    return found


@dataclass
class Summary:
    """How many verdicts of each outcome, and each verifier's scores."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    scores: dict[str, list[float]] = field(default_factory=dict)

    def add(self, verdicts: Sequence[Verdict]) -> None:
        """Take in some verdicts."""
        for verdict in verdicts:
            self.counts[verdict.verifier, verdict.status, verdict.reason or ""] += 1
            if verdict.score is not None:
                self.scores.setdefault(verdict.verifier, []).append(verdict.score)

    def number(self, status: str) -> int:
        """How many have `status`."""
        return sum(count for outcome, count in self.counts.items() if outcome[1] == status)

    def means(self) -> dict[str, tuple[float, int]]:
        """Mean score and number of scores by verifier."""
        named = sorted(self.scores.items())
        return {name: (fsum(found) / len(found), len(found)) for name, found in named}


@dataclass(frozen=True)
class Flip:
    """An item whose verdict is not what it was."""

    before: Record
    after: Verdict
    digests: dict[str, str]

    def row(self) -> dict[str, Any]:
        """What is written down of it."""
        old, new = self.before.verdict, self.after
        return {
            "id": old.id, "verifier": old.verifier, "input_digest": self.before.input_digest,
            "old": {"status": old.status, "score": old.score, "reason": old.reason,
                    "digests": self.before.digests},
            "new": {"status": new.status, "score": new.score, "reason": new.reason,
                    "digests": self.digests},
        }  # fmt: skip


@dataclass
class Reverification:
    """What became of a ledger's verdicts: `same`, flips, and `unknown` (now or then `failed`)."""

    same: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    flips: list[Flip] = field(default_factory=list)

    def add(self, before: Record, after: Verdict, present: Mapping[str, str]) -> Flip | None:
        """Take in one record and its verdict of today; returns the flip, if it is one."""
        name, old = after.verifier, before.verdict
        if "failed" in (old.status, after.status):
            self.unknown[name] += 1
        elif (old.status, old.score) == (after.status, after.score):
            self.same[name] += 1
        else:
            asked = {each: present[each] for each in verifiers(before.item) if each in present}
            self.flips.append(Flip(before, after, asked))
            return self.flips[-1]
        return None


async def score(
    endpoints: Sequence[str],
    file: Path,
    target: Path,
    ledger: Path | None,
    advance: Callable[[int], None],
) -> Summary:
    """Score the items of `file`; `target` gets the verdicts, one a line, and appears when whole."""
    summary, draft = Summary(), target.with_name(f"{target.name}.part")
    async with _client(endpoints) as client:
        known = {} if ledger is None else await digests(client)
        with (
            draft.open("w", encoding="utf-8") as sink,
            nullcontext() if ledger is None else Ledger(ledger) as book,
        ):
            async for lot, verdicts in scored_lots(client, read_items(file)):
                if book is not None:
                    book.append(lot, verdicts, digests=known, source=file.name)
                sink.writelines(verdict.model_dump_json() + "\n" for verdict in verdicts)
                summary.add(verdicts)
                advance(len(lot))
    draft.replace(target)
    return summary


async def reverify(
    endpoints: Sequence[str], ledger: Path, target: Path, advance: Callable[[int], None]
) -> Reverification:
    """Score the items of a ledger again; `target` gets the flips, one a line."""
    found = Reverification()
    async with _client(endpoints) as client:
        present = await digests(client)
        with target.open("w", encoding="utf-8") as sink:
            for lot in lots(read(ledger)):
                verdicts = await client.score([record.item for record in lot])
                for record, verdict in zip(lot, verdicts, strict=True):
                    if flip := found.add(record, verdict, present):
                        sink.write(json.dumps(flip.row(), ensure_ascii=False) + "\n")
                advance(len(lot))
    return found
