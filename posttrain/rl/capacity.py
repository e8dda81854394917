"""Verifiers tried before a run begins: on as many responses as a step has, at once.

What they are asked is known: the answers that a source's own prompts hold to be right where those
are answers, and responses that are wrong. Always holds: it takes `WITHIN` seconds at most; what
has no verdict by then is neither judged nor a fault; no verdict of it is ever trained on.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from posttrain.rl.config import RlConfig
from posttrain.rl.order import Order
from rewards.client import RewardClient
from rewards.schema import Item, Verdict

WITHIN = 60.0
"""Seconds that a trial may take."""

_ENOUGH = 10
"""Responses of which a share of faults is taken, at least."""

_LATE = ("timeout", "overload")
"""The client's reasons where no verdict came in time, though the service lives."""

Row = Mapping[str, Any]


class Tried(NamedTuple):
    """One response that was sent: whether it is `right`, what came back, and after how long (s)."""

    right: bool
    verdict: Verdict
    seconds: float

    @property
    def judged(self) -> bool:
        """Whether it has a score."""
        return self.verdict.score is not None

    @property
    def late(self) -> bool:
        """Whether it had no verdict in time."""
        return not self.judged and self.verdict.reason in _LATE


@dataclass(frozen=True)
class Capacity:
    """What a source's verifier did: counts, seconds, and the mean scores of right and wrong.

    `p50` and `p99` are from a step's responses at once, waiting for one another included;
    `per_second` is of all the time until the last verdict. None where nothing was judged.
    """

    verifier: str
    asked: int
    judged: int
    late: int
    faults: Mapping[str, int]
    p50: float | None
    p99: float | None
    per_second: float | None
    right: float | None
    wrong: float | None

    def __str__(self) -> str:
        told = f"{self.judged} of {self.asked} responses judged"
        if self.p50 is None:
            return told
        return f"{told}, p50 {self.p50:.2f} s, p99 {self.p99:.2f} s, {self.per_second:.1f}/s"


def responses(config: RlConfig, rows: Sequence[Row], seed: int) -> Iterator[tuple[Row, int]]:
    """The prompts of the first step, each as often as it has responses, numbered."""
    order = Order((row["source"] for row in rows), config.shares(), seed)
    for number in range(config.prompts_per_step):
        row = rows[order.draw().row]
        for response in range(config.group):
            yield row, number * config.group + response


def question(row: Row, number: int) -> tuple[bool, Item]:
    """Response `number`, and whether it is right: every other one, where the gold is an answer."""
    asked = {key: row[key] for key in ("verifier", "gold", "parameters")}
    language = row["parameters"].get("language", "python")
    text = f"I do not know.\n\n```{language}\nprint({number}.5)\n```\n"
    gold = row["gold"]
    known = isinstance(gold, list) and all(isinstance(each, str) for each in gold)
    right = known and bool(row["answer_tool"]) and number % 2 == 0
    answers = (gold if right else [f"unknown {number}"]) if row["answer_tool"] else None
    return right, Item(id=uuid4().hex, answers=answers, response=text, **asked)


async def _tried(client: RewardClient, row: Row, number: int) -> Tried:
    right, item = question(row, number)
    asked = time.monotonic()
    try:
        [verdict] = await client.score([item])
    except ValueError as refused:
        raise ValueError(f"source {row['source']}: {refused}") from None
    return Tried(right, verdict, time.monotonic() - asked)


async def _trial(url: str, asked: Sequence[tuple[Row, int]], within: float) -> dict[str, Capacity]:
    async with RewardClient(url, patience=within, timeout=within, fresh=True) as client:
        found = await asyncio.gather(*(_tried(client, row, number) for row, number in asked))
    by_source: dict[str, list[Tried]] = {}
    verifiers = {}
    for (row, _), tried in zip(asked, found, strict=True):
        by_source.setdefault(row["source"], []).append(tried)
        verifiers[row["source"]] = row["verifier"]
    return {name: figures(verifiers[name], every) for name, every in sorted(by_source.items())}


def figures(verifier: str, every: Sequence[Tried]) -> Capacity:
    """What the responses that were sent say of their verifier."""
    judged = [tried for tried in every if tried.judged]
    faults = Counter(
        tried.verdict.reason or tried.verdict.status
        for tried in every
        if not (tried.judged or tried.late)
    )
    seconds = [tried.seconds for tried in judged]
    p50, p99 = np.percentile(seconds, [50, 99]).tolist() if seconds else (None, None)
    return Capacity(
        verifier, len(every), len(judged), sum(tried.late for tried in every), dict(faults),
        p50, p99, len(judged) / max(seconds) if seconds else None,
        _mean(judged, right=True), _mean(judged, right=False),
    )  # fmt: skip


def _mean(judged: Sequence[Tried], *, right: bool) -> float | None:
    scores = [t.verdict.score for t in judged if t.right == right and t.verdict.score is not None]
    return fmean(scores) if scores else None


def excess(config: RlConfig, found: Mapping[str, Capacity]) -> dict[str, str]:
    """Source -> why its verifier must not be trained on; those with `drop_above` go by that."""
    told = {}
    for name, capacity in found.items():
        own = config.sources[name].drop_above
        limit = config.limits.faults if own is None else own
        faults, known = sum(capacity.faults.values()), capacity.asked - capacity.late
        if not capacity.judged or faults > limit * max(known, _ENOUGH):
            reasons = ", ".join(f"{reason} {n}" for reason, n in capacity.faults.items())
            told[name] = (
                f"verifier {capacity.verifier} judged {capacity.judged} of {capacity.asked} "
                f"responses it was tried on ({reasons or f'none in {WITHIN:.0f} s'}; limit of "
                f"faults {limit:.0%})"
            )
    return told


def remarks(found: Mapping[str, Capacity], step: float | None) -> Iterator[str]:
    """What to tell of verifiers that work; `step` are the seconds that a step takes, if known."""
    for name, capacity in found.items():
        yield f"source {name}, verifier {capacity.verifier}: {capacity}"
        if capacity.right is not None and capacity.right <= (capacity.wrong or 0.0):
            yield (
                f"source {name}: its own gold scores {capacity.right:.2f} on average, wrong "
                f"answers {capacity.wrong or 0.0:.2f}: nothing can be learned from such rewards"
            )
        if step and capacity.per_second and capacity.asked > step * capacity.per_second:
            yield (
                f"source {name}: a step takes {step:.1f} s and the verdicts of its responses "
                f"{capacity.asked / capacity.per_second:.1f} s: the trainer will wait for them"
            )


def trial(
    config: RlConfig, prompts: Path, url: str, seed: int, step: float | None, record: Path,
    within: float = WITHIN,
) -> None:  # fmt: skip
    """Try the verifiers, tell what they do and write it to `record`.

    `step` are the seconds that a step takes, if known. RuntimeError names a source whose verifier
    gives too many faults, unless the run may drop it.
    """
    rows = [json.loads(line) for line in prompts.read_text("utf-8").split("\n")[:-1]]
    asked = list(responses(config, rows, seed))
    found = asyncio.run(_trial(url, asked, within))
    record.write_text(json.dumps({name: asdict(each) for name, each in found.items()}) + "\n")
    for remark in remarks(found, step):
        print(remark, flush=True)
    for name, why in excess(config, found).items():
        if config.sources[name].drop_above is None:
            raise RuntimeError(
                f"source {name}: {why}; mend the reward service, and the same command goes on"
            )
        print(f"source {name}: {why}; the run will drop it", flush=True)
