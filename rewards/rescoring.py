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

_UNKNOWN = "unknown_verifier"
_MARK = b"\xef\xbb\xbf"
"""A byte order mark, which some editors put before the first line."""

Outcome = tuple[str, str, str]
"""Verifier, status and reason."""

_T = TypeVar("_T")


def read_items(path: Path) -> Iterator[Entry]:
    """The items of a JSONL file; ValueError with file and line where one is none."""
    return (item for _, item in placed_items(path))


def placed_items(path: Path) -> Iterator[tuple[str, Entry]]:
    """The same, each with its file and line."""
    try:
        file = path.open("rb")
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror})") from None
    with file:
        for number, line in enumerate(file, start=1):
            content = (line.removeprefix(_MARK) if number == 1 else line).strip()
            if content:
                place = f"{path}:{number}"
                yield place, _item(content, place)


def _item(line: bytes, place: str) -> Entry:
    try:
        found = entries(from_json(line, allow_inf_nan=False))
    except ValidationError as fault:
        error = fault.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, error["loc"])) or "item"
        raise ValueError(f"{place}: {where}: {error['msg']}") from None
    except ValueError as fault:
        said = str(fault).replace(" at line 1 column ", " at column ")  # The place has the line.
        raise ValueError(f"{place}: no JSON: {said}") from None
    if len(found) != 1:
        raise ValueError(f"{place}: give one item a line")
    return found[0]


def lots(things: Iterable[_T]) -> Iterator[list[_T]]:
    """`things` in lists of `LOT`."""
    rest = iter(things)
    while lot := list(islice(rest, LOT)):
        yield lot


def _client(endpoints: Sequence[str], patience: float, *, fresh: bool = False) -> RewardClient:
    """For bulk: requests so small that one of slow checks ends within its time."""
    return RewardClient(endpoints, timeout=patience, patience=patience, batch=16, fresh=fresh)


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
    """How many verdicts of each outcome, what one of them says, and each verifier's scores."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    details: dict[Outcome, str] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)

    def add(self, verdicts: Sequence[Verdict]) -> None:
        """Take in some verdicts."""
        for verdict in verdicts:
            outcome = (verdict.verifier, verdict.status, verdict.reason or "")
            self.counts[outcome] += 1
            if verdict.status != "scored" and outcome not in self.details:
                self.details[outcome] = f"{verdict.id}: {verdict.detail}"
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


def draft_of(target: Path) -> Path:
    """Where verdicts are until they are whole."""
    return target.with_name(f"{target.name}.part")


async def score(
    endpoints: Sequence[str],
    file: Path,
    target: Path,
    ledger: Path | None,
    advance: Callable[[int], None],
    summary: Summary,
    *,
    patience: float = PATIENCE,
) -> None:
    """Score the items of `file`; `target` gets the verdicts, one a line, and appears when whole.

    `summary` takes in what is written down, so that it is right wherever this is interrupted.
    """
    draft = draft_of(target)
    async with _client(endpoints, patience) as client:
        known = {} if ledger is None else await digests(client)
        with (
            nullcontext() if ledger is None else Ledger(ledger) as book,
            draft.open("w", encoding="utf-8") as sink,
        ):
            async for lot, verdicts in scored_lots(client, read_items(file)):
                if book is not None:
                    book.append(lot, verdicts, digests=known, source=file.name)
                sink.writelines(verdict.model_dump_json() + "\n" for verdict in verdicts)
                summary.add(verdicts)
                advance(len(lot))
    draft.replace(target)


def can_flip(record: Record) -> bool:
    """Whether a verifier had its say, so that it may say otherwise."""
    return record.verdict.reason != _UNKNOWN


async def reverify(
    endpoints: Sequence[str],
    ledger: Path,
    target: Path,
    advance: Callable[[int], None],
    *,
    patience: float = PATIENCE,
) -> Reverification:
    """Score the items of a ledger again, from no memory; `target` gets the flips, one a line.

    Records that cannot flip are left out.
    """
    found = Reverification()
    async with _client(endpoints, patience, fresh=True) as client:
        present = await digests(client)
        with target.open("w", encoding="utf-8") as sink:
            for lot in lots(filter(can_flip, read(ledger))):
                verdicts = await client.score([record.item for record in lot])
                for record, verdict in zip(lot, verdicts, strict=True):
                    if flip := found.add(record, verdict, present):
                        sink.write(json.dumps(flip.row(), ensure_ascii=False) + "\n")
                advance(len(lot))
    return found
