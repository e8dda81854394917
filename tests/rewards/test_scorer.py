"""How items find their verdicts: places, memory, company, records; places are stand-ins."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.cache import Cache
from rewards.job import Job, Share
from rewards.metrics import Metrics
from rewards.readiness import Readiness
from rewards.recorder import Recorder
from rewards.schema import Entry, Item, Verdict, abstained, failed, scored
from rewards.scorer import Gone, Overloaded, Route, Scorer
from rewards.verifiers import Canary, Profile


class Place:
    """Keeps jobs until it is told to settle them."""

    def __init__(self, room: int = 1000) -> None:
        self.jobs: list[Job] = []
        self.room = room

    @property
    def waiting(self) -> int:
        return len(self.jobs)

    def has_room(self, jobs: int) -> bool:
        return jobs <= self.room

    def submit(self, jobs: Sequence[Job]) -> None:
        self.jobs += jobs

    def settle(self) -> int:
        """Settle what is wanted; returns how many that were."""
        jobs, self.jobs = self.jobs, []
        wanted = [job for job in jobs if job.wanted]
        for job in jobs:
            job.settle(judged(job.item)) if job.wanted else job.drop()
        return len(wanted)


def judged(item: Item) -> Verdict:
    """A verdict that depends on nothing but the content."""
    word = item.response or ""
    if word.startswith("f"):
        return failed(item, "crash", word)
    return (
        abstained(item, "bad_gold", word) if word.startswith("a") else scored(item, len(word) / 9)
    )


def broken(item: Item) -> Verdict:
    raise RuntimeError("a bug")


async def never() -> None:
    await asyncio.sleep(60)


def item(name: str, word: str = "right", verifier: str = "v") -> Item:
    return Item(id=name, verifier=verifier, response=word)


def scorer(place: Place, *, cache: int = 100, **inline: Any) -> Scorer:
    routes = {
        "v": Route("digest", place),
        "i": Route("digest", place, inline.get("inline", judged)),
    }
    return Scorer(routes, Cache(cache), Metrics())


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


WORDS = st.lists(st.sampled_from(["a", "f", "r", "right", "wrong"]), min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(1, 5))
def test_memory_never_changes_a_verdict(requests: list[list[str]], size: int) -> None:
    async def test() -> None:
        place = Place()
        scoring = scorer(place, cache=size)
        for words in requests:
            items = [item(f"{n}", word) for n, word in enumerate(words)]
            task = asyncio.ensure_future(scoring.score(items, never))
            await asyncio.sleep(0)
            place.settle()
            assert [v.model_copy(update={"elapsed_ms": 0}) for v in await task] == [
                judged(one) for one in items
            ]
        assert scoring.in_flight == 0

    run(test())


def test_a_fresh_verdict_is_not_a_remembered_one_but_may_be_shared() -> None:
    async def test() -> None:
        place = Place()
        scoring = scorer(place)
        for fresh, expected in ((False, 1), (False, 0), (True, 1)):
            asking = [
                asyncio.ensure_future(scoring.score([item("1")], never, fresh=fresh))
                for _ in range(2)
            ]
            await asyncio.sleep(0)
            assert place.settle() == expected
            assert [(await task)[0].score for task in asking] == [5 / 9] * 2

    run(test())


def test_a_full_service_is_as_ready_as_it_was() -> None:
    async def test() -> None:
        full = failed(item("c"), "sandbox_overload", "HTTP 429")
        answers = [full, scored(item("c"), 1.0), full]

        async def probe(_: Item) -> Verdict:
            return answers.pop(0)

        canary = Canary(item=item("c"), score=1.0)
        profile = Profile(
            name="v", runs="remote", digest="", gold={}, parameters={}, canaries=[canary]
        )
        readiness = Readiness([profile], probe, 1.0)
        found = [await readiness.reason(canary) for _ in range(3)]
        assert found == ["canary c: failed (sandbox_overload: HTTP 429), not 1", None, None]

    run(test())


def test_failed_verdicts_are_not_remembered() -> None:
    async def test() -> None:
        place = Place()
        scoring = scorer(place)
        for expected in (1, 1):
            task = asyncio.ensure_future(scoring.score([item("1", "f")], never))
            await asyncio.sleep(0)
            assert place.settle() == expected
            assert (await task)[0].status == "failed"

    run(test())


def test_one_of_two_who_wait_for_the_same_may_leave() -> None:
    async def test() -> None:
        place, left = Place(), asyncio.Event()
        scoring = scorer(place)
        first = asyncio.ensure_future(scoring.score([item("1")], left.wait))
        second = asyncio.ensure_future(scoring.score([item("2")], never))
        await asyncio.sleep(0)
        left.set()
        with pytest.raises(Gone):
            await first
        assert place.settle() == 1
        assert [v.id for v in await second] == ["2"]

    run(test())


def test_what_nobody_waits_for_is_dropped_and_asked_anew() -> None:
    async def test() -> None:
        place, left = Place(), asyncio.Event()
        scoring = scorer(place)
        first = asyncio.ensure_future(scoring.score([item("1")], left.wait))
        await asyncio.sleep(0)
        left.set()
        with pytest.raises(Gone):
            await first
        assert place.settle() == 0
        again = asyncio.ensure_future(scoring.score([item("1")], never))
        await asyncio.sleep(0)
        assert place.settle() == 1
        assert (await again)[0].status == "scored"

    run(test())


def test_a_request_finds_room_for_all_its_items_or_none() -> None:
    async def test() -> None:
        place = Place(room=2)
        scoring = scorer(place)
        with pytest.raises(Overloaded):
            await scoring.score([item(str(n), "r" * n) for n in range(1, 4)], never)
        assert (place.jobs, scoring.in_flight) == ([], 0)

    run(test())


def test_inline_checks_need_no_place_unless_they_raise_or_are_long() -> None:
    async def test() -> None:
        place = Place()
        (verdict,) = await scorer(place).score([item("1", verifier="i")], never)
        assert verdict.score == 5 / 9
        assert not place.jobs
        for scoring, word in (
            (scorer(place, inline=broken), "right"),
            (scorer(place), "a" * 10**6),
        ):
            task = asyncio.ensure_future(scoring.score([item("1", word, "i")], never))
            await asyncio.sleep(0)
            assert place.settle() == 1
            assert (await task)[0].status in {"scored", "abstained"}

    run(test())


class Book:
    """A ledger that keeps what it is given, or fails."""

    def __init__(self, fault: OSError | None = None) -> None:
        self.rows: list[str] = []
        self.fault = fault

    def append(self, items: Sequence[Entry], verdicts: Sequence[Verdict], **_: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.rows += [verdict.id for verdict in verdicts]


def test_verdicts_are_on_record_before_they_are_told() -> None:
    async def test() -> None:
        book = Book()
        recorder = Recorder(book, {})
        scoring = Scorer({"i": Route("d", Place(), judged)}, Cache(1), Metrics(), recorder)

        async def ask(n: int) -> None:
            await scoring.score([item(str(n), verifier="i")], never)
            assert str(n) in book.rows

        await asyncio.gather(*map(ask, range(50)))
        assert sorted(book.rows, key=int) == [str(n) for n in range(50)]

    run(test())


def test_without_a_record_there_is_no_verdict() -> None:
    async def test() -> None:
        recorder = Recorder(Book(OSError(28, "no space left")), {})
        scoring = Scorer({"i": Route("d", Place(), judged)}, Cache(1), Metrics(), recorder)
        with pytest.raises(OSError, match="no space"):
            await scoring.score([item("1", verifier="i")], never)

    run(test())


def test_readiness_follows_the_canaries() -> None:
    async def test() -> None:
        answers: list[Verdict | Exception] = [
            scored(item("c"), 1.0), scored(item("c"), 0.0), failed(item("c"), "crash", "gone"),
            RuntimeError("a bug"),
        ]  # fmt: skip

        async def probe(_: Item) -> Verdict:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        canary = Canary(item=item("c"), score=1.0)
        profile = Profile(
            name="v", runs="worker", digest="", gold={}, parameters={}, canaries=[canary]
        )
        readiness = Readiness([profile], probe, 1.0)
        assert readiness.reasons == {"v": "starting"}
        found = [await readiness.reason(canary) for _ in range(4)]
        assert found == [
            None,
            "canary c: scored (0.0), not 1",
            "canary c: failed (crash: gone), not 1",
            "canary c: RuntimeError: a bug",
        ]

    run(test())


class Helper:
    """Does shares, or leaves them undone, or takes none."""

    def __init__(self, deed: str) -> None:
        self.deed = deed
        self.done = 0

    def lend(self, share: Share) -> bool:
        if self.deed == "busy":
            return False
        self.done += len(share.items)
        verdicts = [judged(one) for one in share.items]
        told = {"whole": verdicts, "part": verdicts[:-1], "undone": None}[self.deed]
        asyncio.get_running_loop().call_soon(share.settle, told)
        return True


@pytest.mark.parametrize("deed", ["busy", "whole", "part", "undone"])
@pytest.mark.parametrize("count", [1, 80, 500])
def test_inline_checks_may_be_shared_out(deed: str, count: int) -> None:
    async def test() -> None:
        helper = Helper(deed)
        routes = {"i": Route("d", Place(), judged)}
        scoring = Scorer(routes, Cache(1), Metrics(), lend=helper.lend)
        items = [item(str(n), "r" * (n % 9), "i") for n in range(count)]
        assert await scoring.score(items, never) == [judged(one) for one in items]
        assert (helper.done > 0) == (deed != "busy" and count > 32)

    run(test())
