"""Batching, balancing and faults of the client, against endpoints that fail on demand."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from rewards.batching import GATHER
from rewards.client import TOKEN, RewardClient
from rewards.endpoints import LONGEST_PAUSE, LONGEST_REST, Endpoints
from rewards.schema import BATCH, COMPOSITE, Check, Composite, Item, Verdict
from tests.rewards.endpoint import (
    Deed,
    Endpoint,
    death,
    garbage,
    refusing,
    silence,
    standing,
    verdicts,
)


def item(name: str, verifier: str = "answer") -> Item:
    return Item(id=name, verifier=verifier, answers=["42"], gold=["42"])


@asynccontextmanager
async def at(*deeds: Deed, **options: Any) -> AsyncIterator[tuple[Endpoint, RewardClient]]:
    """One endpoint, and a client of it."""
    async with standing(*deeds) as endpoint, RewardClient(endpoint.url, **options) as client:
        yield endpoint, client


def dead_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


async def one_by_one(client: RewardClient, count: int, verifier: str = "answer") -> list[Verdict]:
    """Verdicts on items that as many coroutines submit at the same time."""
    alone = (client.score([item(str(n), verifier)]) for n in range(count))
    return [verdict for (verdict,) in await asyncio.gather(*alone)]


def all_scored(found: list[Verdict], count: int) -> bool:
    return [(v.id, v.score) for v in found] == [(str(n), 1.0) for n in range(count)]


def test_items_of_many_coroutines_share_requests() -> None:
    async def body() -> None:
        async with at(batch=16) as (endpoint, client):
            assert all_scored(await one_by_one(client, 100), 100)
            assert [len(lot) for lot in endpoint.lots] == [16] * 6 + [4]

    asyncio.run(body())


def test_verifiers_do_not_share_requests() -> None:
    async def body() -> None:
        async with at() as (endpoint, client):
            mixed = [item(str(n), ("answer", "code")[n % 2]) for n in range(8)]
            assert all_scored(await client.score(mixed), 8)
            assert sorted({each.verifier for each in lot} for lot in endpoint.lots) == [
                {"answer"}, {"code"},
            ]  # fmt: skip

    asyncio.run(body())


def test_no_more_requests_at_once_than_allowed_and_what_waits_fills_the_next() -> None:
    async def body() -> None:
        async with at(silence, silence, batch=4, connections=2) as (endpoint, client):
            asking = [asyncio.create_task(client.score([item(str(n))])) for n in range(20)]
            await asyncio.sleep(20 * GATHER)
            assert [len(lot) for lot in endpoint.lots] == [4, 4]
            for task in asking[:4]:
                task.cancel()
            await asyncio.gather(*asking[8:])
            assert [len(lot) for lot in endpoint.lots[2:]] == [4, 4, 4]
            for task in asking:
                task.cancel()

    asyncio.run(body())


@pytest.mark.parametrize(
    "deed",
    [death, garbage, refusing(500), refusing(404), refusing(503), refusing(429, Retry_After="0")],
)
def test_a_fault_costs_no_item_its_verdict(deed: Deed) -> None:
    """The endpoint fails one request; with another at hand nobody waits for its recovery."""

    async def body() -> None:
        async with standing(deed) as bad, standing() as good:
            async with RewardClient([bad.url, good.url], batch=5) as client:
                assert all_scored(await one_by_one(client, 10), 10)
            assert [len(lot) for lot in bad.lots] == [5]
            assert [len(lot) for lot in good.lots] == [5, 5]

    asyncio.run(body())


def test_of_two_endpoints_one_dead_the_other_serves() -> None:
    async def body() -> None:
        async with standing() as good, RewardClient([dead_url(), good.url], batch=2) as client:
            for _ in range(3):
                assert all_scored(await one_by_one(client, 10), 10)

    asyncio.run(body())


def test_healthy_endpoints_share_the_work() -> None:
    async def body() -> None:
        async with standing() as one, standing() as two:
            async with RewardClient([one.url, two.url], batch=2) as client:
                await one_by_one(client, 40)
            assert [len(one.lots), len(two.lots)] == [10, 10]

    asyncio.run(body())


def test_a_busy_endpoint_gets_less() -> None:
    async def body() -> None:
        async with standing(silence, silence) as stuck, standing() as quick:
            async with RewardClient([stuck.url, quick.url], patience=1.0) as client:
                waiting = asyncio.create_task(client.score([item("stuck", "v0")]))
                await asyncio.sleep(10 * GATHER)
                for n in range(6):
                    assert (await client.score([item(str(n))]))[0].score == 1.0
                (verdict,) = await waiting
            assert (verdict.status, verdict.reason) == ("failed", "timeout")
            assert [len(stuck.lots), len(quick.lots)] == [1, 6]

    asyncio.run(body())


def test_an_ejected_endpoint_is_probed_back() -> None:
    async def body() -> None:
        async with at(death) as (endpoint, client):
            asking = asyncio.create_task(client.score([item("0")]))
            await asyncio.sleep(0.5)
            assert [len(endpoint.lots), asking.done()] == [1, False]
            endpoint.ready = True
            assert all_scored(await asking, 1)
            assert len(endpoint.lots) == 2

    asyncio.run(body())


def test_retry_after_is_honoured() -> None:
    async def body() -> None:
        async with at(refusing(429, Retry_After="1")) as (endpoint, client):
            assert all_scored(await one_by_one(client, 3), 3)
            first, second = endpoint.times
            assert second - first >= 1.0

    asyncio.run(body())


def test_a_slow_endpoint_is_given_up_and_the_other_asked() -> None:
    async def body() -> None:
        async with standing(silence) as slow, standing() as good:
            async with RewardClient([slow.url, good.url], timeout=0.3, batch=1) as client:
                assert all_scored(await one_by_one(client, 2), 2)
            assert [len(slow.lots), len(good.lots)] == [1, 2]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("deeds", "reason"),
    [
        ([silence], "timeout"),
        ([refusing(429, Retry_After="30")], "overload"),
        ([garbage] * 9, "protocol"),
        ([death], "unreachable"),
    ],
)
def test_patience_bounds_all_tries_and_tells_the_last_fault(deeds: list[Deed], reason: str) -> None:
    async def body() -> None:
        async with at(*deeds, patience=0.5) as (_, client), asyncio.timeout(10):
            found = await client.score([item("a"), item("b")])
        assert [(v.id, v.status, v.score, v.reason) for v in found] == [
            ("a", "failed", None, reason), ("b", "failed", None, reason),
        ]  # fmt: skip

    asyncio.run(body())


def test_a_cancelled_caller_takes_its_item_back() -> None:
    """One that waits is not sent; a request nobody waits for any more is dropped."""

    async def body() -> None:
        async with at(silence, connections=1) as (endpoint, client):
            sent = asyncio.create_task(client.score([item("sent")]))
            await asyncio.sleep(10 * GATHER)
            waits = asyncio.create_task(client.score([item("waits")]))
            stays = asyncio.create_task(client.score([item("0")]))
            await asyncio.sleep(10 * GATHER)
            waits.cancel()
            sent.cancel()
            assert all_scored(await stays, 1)
            assert [[each.id for each in lot] for lot in endpoint.lots] == [["sent"], ["0"]]
            assert endpoint.left == 1

    asyncio.run(body())


def test_a_cancelled_neighbour_costs_no_verdict() -> None:
    async def body() -> None:
        async with at(refusing(429, Retry_After="1")) as (endpoint, client):
            gone = asyncio.create_task(client.score([item("gone")]))
            stays = asyncio.create_task(client.score([item("0")]))
            await asyncio.sleep(0.2)
            gone.cancel()
            assert all_scored(await stays, 1)
            assert [each.id for each in endpoint.lots[-1]] == ["0"]

    asyncio.run(body())


def test_a_refused_item_costs_its_neighbours_nothing() -> None:
    async def refuse_poison(endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        poisoned = any(each.id == "poison" for each in endpoint.lots[-1])
        return await (refusing(422) if poisoned else verdicts)(endpoint, request)

    async def body() -> None:
        async with at(*[refuse_poison] * 20) as (_, client):
            sound = asyncio.create_task(one_by_one(client, 20))
            with pytest.raises(ValueError, match=r"refuses the item"):
                await client.score([item("poison")])
            assert all_scored(await sound, 20)

    asyncio.run(body())


def test_the_token_is_sent_and_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cret-token"

    async def body() -> None:
        async with at(refusing(401)) as (endpoint, client):
            assert secret not in repr(client)
            with pytest.raises(ValueError, match=r"refuses the token \(401\)") as denied:
                await client.score([item("a")])
            assert secret not in str(denied.value)
            await client.score([item("b")])
            async with RewardClient(endpoint.url, token="another") as client:
                await client.score([item("c")])
            assert endpoint.tokens == [f"Bearer {secret}"] * 2 + ["Bearer another"]

    monkeypatch.setenv(TOKEN, f"{secret}\n")
    asyncio.run(body())
    with pytest.raises(ValueError, match=r"not printable") as wrong:
        RewardClient("http://127.0.0.1:1", token=f"{secret}\n{secret}")
    assert secret not in str(wrong.value)


@pytest.mark.parametrize("urls", [[], ["localhost:80"], ["http://a", "ftp://b"]])
def test_what_is_no_url_is_refused(urls: list[str]) -> None:
    with pytest.raises(ValueError, match=r"URL of a reward service"):
        RewardClient(urls)


def test_the_default_batch_fits_into_a_request() -> None:
    async def body() -> None:
        async with at() as (endpoint, client):
            assert all_scored(await one_by_one(client, 300), 300)
            assert max(map(len, endpoint.lots)) <= BATCH

    asyncio.run(body())


def test_two_callers_may_use_the_same_id() -> None:
    async def body() -> None:
        async with at() as (endpoint, client):
            one, other = item("0"), item("0").model_copy(update={"gold": ["41"]})
            assert all(await asyncio.gather(client.score([one, item("1")]), client.score([other])))
            assert endpoint.lots == [[one, item("1")], [other]]

    asyncio.run(body())


def test_a_composite_item_travels_like_any_other() -> None:
    async def body() -> None:
        check = Check(verifier="answer", gold=["42"])
        whole = Composite(id="0", answers=["42"], checks=[check])
        async with at(refusing(500), patience=0.05) as (endpoint, client):
            (verdict,) = await client.score([whole])
            assert (verdict.verifier, verdict.status) == (COMPOSITE, "failed")
            endpoint.deeds = []
        async with at() as (endpoint, client):
            await client.score([whole])
            assert endpoint.lots == [[whole]]

    asyncio.run(body())


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["take", "succeed", "rest", "eject", "readmit"]),
        st.integers(0, 2), st.floats(0, 3), st.none() | st.floats(0, 1e6),
    ),
    max_size=40,
)  # fmt: skip


@given(ACTS)
def test_only_the_least_busy_healthy_endpoint_is_chosen(
    acts: list[tuple[str, int, float, float | None]],
) -> None:
    endpoints, now = Endpoints(["http://a", "http://b", "http://c"]), 0.0
    for act, which, passed, asked in acts:
        now += passed
        endpoint = endpoints.all[which]
        if act == "take":
            endpoint.outstanding += 1
        elif act == "succeed":
            endpoint.succeeded()
        elif act == "rest":
            endpoint.rest(now, asked)
            assert endpoint.ejected or endpoint.opens <= now + LONGEST_REST
        elif act == "eject":
            assert endpoint.eject() or endpoint.ejected
            assert 0 < endpoint.pause() <= LONGEST_PAUSE
        elif endpoint.ejected:
            endpoint.readmit(now)
        able = [each for each in endpoints.all if each.opens <= now]
        chosen, wait = endpoints.choose(now), endpoints.opening(now)
        if able:
            assert chosen in able
            assert chosen.outstanding == min(each.outstanding for each in able)
        else:
            assert chosen is None
            assert wait is None or 0 < wait <= LONGEST_REST + 1e-6  # A difference of sums.
