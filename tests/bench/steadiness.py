"""What must not depend on load or time: verdicts, and memory."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rewards.audit.corpus import read
from rewards.audit.hosting import rewards_service
from rewards.client import RewardClient
from rewards.schema import Item, Verdict
from tests.bench import mix, servers
from tests.bench.figures import Row, Spread, measured

CASES = Path(__file__).resolve().parents[1] / "rewards/cases"
WARM_UP = 20_000
ITEMS = 100_000
CHUNK = 5_000
LONG = 600.0


def sameness(_: Path) -> list[Row]:
    """The whole corpus at 1 connection and at 256."""
    items = [case.item for case in read(CASES)]
    with rewards_service(sorted({item.verifier for item in items})) as url:
        alone = asyncio.run(_verdicts(url, items, 1))
        together = asyncio.run(_verdicts(url, items, 256))
    pairs = zip(alone, together, strict=True)
    differ = [a.id for a, b in pairs if _said(a) != _said(b)]
    what = f"verdicts on {len(items)} labelled cases that differ at 1 and at 256 connections"
    return [Row(what, " ".join([str(len(differ)), *differ]), "0", not differ)]


def _said(verdict: Verdict) -> tuple[object, ...]:
    return verdict.status, verdict.score, verdict.reason


async def _verdicts(url: str, items: Sequence[Item], connections: int) -> list[Verdict]:
    async with RewardClient(
        url, timeout=LONG, patience=LONG, connections=connections, batch=1
    ) as client:
        return await client.score(items)


def memory(folder: Path) -> list[Row]:
    """Memory of all processes of a service while it judges 100,000 different items."""
    with servers.rewards(folder, "answer,math", 1) as service:
        asyncio.run(_judge(service.url, 0, WARM_UP))
        before = service.memory
        asyncio.run(_judge(service.url, WARM_UP, ITEMS))
        growth = 100 * (service.memory / before - 1)
    what = f"growth of memory, %, over {ITEMS:,} items after {WARM_UP:,} (of {before >> 20} MiB)"
    return [measured(what, Spread([growth]), "<= 5")]


async def _judge(url: str, first: int, count: int) -> None:
    async with RewardClient(url, timeout=LONG, patience=LONG) as client:
        for seed in range(first, first + count, CHUNK):
            verdicts = await client.score(_items(seed))
            assert all(verdict.status == "scored" for verdict in verdicts)


def _items(seed: int) -> list[Item]:
    """Half answers, half numbers, and some of everything in mathematics."""
    some = CHUNK // 100
    items = [
        *mix.answers(seed, CHUNK // 2 - some),
        *mix.numbers(seed, CHUNK // 2),
        *mix.mixed(seed, some),
    ]
    Random(seed).shuffle(items)
    return items
