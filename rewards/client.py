"""Clients of the reward service. A fault becomes a `failed` verdict, never a number.

Requests are tried again, with growing pauses, while the service is unreachable, overloaded or
broken, up to `patience` seconds in all; what it says about the items themselves is final.
"""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import aiohttp
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    RetryError,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from rewards.schema import Item, Request, Response, Verdict, failed

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class _Unavailable(Exception):
    """The service gave no verdicts this time; `reason` is the code for the verdict."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class RewardClient:
    """Scores items over HTTP; use as `async with`.

    `timeout` bounds one request and `patience` all tries of it, in seconds. Up to `connections`
    requests of `batch` items each are under way at once.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 120.0,
        patience: float = 60.0,
        connections: int = 64,
        batch: int = 64,
    ) -> None:
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._patience = patience
        self._batch = batch
        self._gate = asyncio.Semaphore(connections)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0)  # The semaphore is the limit.
        self._session = aiohttp.ClientSession(timeout=self._timeout, connector=connector)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def score(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict for each item, in order; ValueError if the service refuses the request.

        Where the service stays out of reach the verdicts are `failed`, with the reason
        `unreachable`, `overload` or `protocol`.
        """
        parts = [items[at : at + self._batch] for at in range(0, len(items), self._batch)]
        verdicts = await asyncio.gather(*map(self._persistently, parts))
        return [verdict for part in verdicts for verdict in part]

    async def ready(self) -> bool:
        """Whether the service verifies items at once."""
        assert self._session is not None
        try:
            async with self._session.get(f"{self._url}/readyz") as reply:
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _persistently(self, items: Sequence[Item]) -> list[Verdict]:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Unavailable),
            wait=wait_random_exponential(_FIRST_PAUSE, _LONGEST_PAUSE),
            stop=stop_after_delay(self._patience),
        )
        try:
            async with self._gate:
                return await retrying(self._once, items)
        except RetryError as last:
            fault = last.last_attempt.exception()
        assert isinstance(fault, _Unavailable)
        return [failed(item, fault.reason, str(fault)) for item in items]

    async def _once(self, items: Sequence[Item]) -> list[Verdict]:
        assert self._session is not None, "use the client as `async with`"
        body = Request.model_construct(items=list(items)).model_dump_json()
        try:
            async with self._session.post(
                f"{self._url}/v1/score", data=body, headers={"Content-Type": "application/json"}
            ) as reply:
                return _verdicts(items, reply.status, await reply.read())
        except (aiohttp.ClientError, TimeoutError) as fault:
            raise _Unavailable("unreachable", f"{self._url}: {fault or 'timed out'}") from None


def _verdicts(items: Sequence[Item], status: int, body: bytes) -> list[Verdict]:
    """The verdicts of a reply; ValueError if the items are at fault, _Unavailable if it is not."""
    if status == 422:
        raise ValueError(f"the reward service refuses the items: {body[:500].decode()}")
    if status != 200:
        reason = "overload" if status == 503 else "protocol"
        raise _Unavailable(reason, f"HTTP {status}: {body[:200]!r}")
    try:
        verdicts = Response.model_validate_json(body).verdicts
    except ValidationError as fault:
        raise _Unavailable("protocol", f"not a list of verdicts: {fault}") from None
    if [verdict.id for verdict in verdicts] != [item.id for item in items]:
        raise _Unavailable("protocol", "the verdicts are not those of the items")
    return verdicts


class BlockingRewardClient:
    """The same for code without an event loop; use as `with`, in one thread."""

    def __init__(self, url: str, *, timeout: float = 120.0, patience: float = 60.0) -> None:
        self._runner = asyncio.Runner()
        self._client = RewardClient(url, timeout=timeout, patience=patience)

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._client.__aexit__(kind, fault, trace))
        self._runner.close()

    def score(self, items: Sequence[Item]) -> list[Verdict]:
        """As `RewardClient.score`."""
        return self._runner.run(self._client.score(items))

    def ready(self) -> bool:
        """As `RewardClient.ready`."""
        return self._runner.run(self._client.ready())
