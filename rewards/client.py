"""Clients of the reward service. A fault becomes a `failed` verdict, never a number.

Items are gathered into requests and go to the healthy endpoint with the fewest under way. They are
tried again while endpoints are unreachable, overloaded or broken, until each has a verdict or its
patience has run out; what a service says about the items themselves is final.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
from pydantic import ValidationError

from rewards.batching import Batcher, Ticket
from rewards.endpoints import Endpoint, Endpoints
from rewards.schema import Entry, Request, Response, Verdict

TOKEN = "REWARDS_TOKEN"
"""Environment variable with the bearer token."""

_log = logging.getLogger(__name__)

_PROBE = 5.0
"""Seconds a probe, or the opening of a connection, may take."""

_IDLE = 3.0
"""Seconds a connection is kept; servers drop idle ones after five, perhaps under a new request."""

_JSON = {"Content-Type": "application/json"}
_OVERLOADED = (429, 503)
_DENIED = (401, 403)
_REFUSED = (400, 413, 422)


class _Unavailable(Exception):
    """An endpoint gave no verdicts this time; `reason` is the code for the verdict.

    `rest` is the pause it asked for; it asked for one if it is `overloaded`.
    """

    def __init__(self, reason: str, detail: str, rest: float | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.rest = rest


class RewardClient:
    """Scores items over HTTP; use as `async with`.

    `url` names the service's endpoint, or several. `timeout` bounds one request and `patience` all
    that is done for an item, in seconds. Up to `connections` requests of `batch` items each are
    under way at once. `token` is by default that of the environment variable REWARDS_TOKEN. If
    `fresh`, no verdict is one that the service remembers.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        token: str | None = None,
        timeout: float = 120.0,
        patience: float = 180.0,
        connections: int = 64,
        batch: int = 32,
        fresh: bool = False,
    ) -> None:
        self._endpoints = Endpoints([url] if isinstance(url, str) else url)
        self._headers = _headers(token) | ({"Cache-Control": "no-cache"} if fresh else {})
        self._timeout = timeout
        self._patience = patience
        self._batcher = Batcher(self._deliver, batch, connections)
        self._opened = asyncio.Event()
        self._probes: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE)  # The batcher limits.
        limits = aiohttp.ClientTimeout(total=self._timeout, sock_connect=_PROBE)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=limits, headers=self._headers
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._batcher.close()
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        await self._session.close()

    async def score(self, items: Sequence[Entry]) -> list[Verdict]:
        """One verdict for each item, in order; ValueError if the service refuses one, or us.

        Items without a verdict after `patience` seconds are `failed` with the reason of the last
        fault: `unreachable`, `overload`, `protocol`; or `timeout` if there was none. A caller that
        is cancelled takes back its items.
        """
        assert self._session is not None, "use the client as `async with`"
        tickets = [self._batcher.put(item) for item in items]
        try:
            async with asyncio.timeout(self._patience):
                for ticket in tickets:
                    await ticket.outcome
        except TimeoutError:
            pass  # Told item by item, below.
        finally:
            for ticket in tickets:
                ticket.outcome.cancel()
        return [self._verdict(ticket) for ticket in tickets]

    def _verdict(self, ticket: Ticket) -> Verdict:
        if ticket.outcome.cancelled():
            waited = ("timeout", f"no verdict within {self._patience:g} s")
            reason, detail = ticket.fault or waited
            return Verdict(
                id=ticket.item.id, verifier=ticket.verifier,
                status="failed", reason=reason, detail=detail,
            )  # fmt: skip
        outcome = ticket.outcome.result()
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    async def ready(self) -> bool:
        """Whether an endpoint verifies items at once."""
        return any(await asyncio.gather(*map(self._is_ready, self._endpoints.all)))

    async def ask(self, path: str) -> list[tuple[int, Any]]:
        """Status and JSON of `path` at each endpoint; status 0 and the reason where none came."""
        return list(await asyncio.gather(*(self._get(each, path) for each in self._endpoints.all)))

    async def _is_ready(self, endpoint: Endpoint) -> bool:
        return (await self._get(endpoint, "/readyz"))[0] == 200

    async def _get(self, endpoint: Endpoint, path: str) -> tuple[int, Any]:
        assert self._session is not None
        limits = aiohttp.ClientTimeout(total=_PROBE)
        try:
            async with self._session.get(
                f"{endpoint.url}{path}", timeout=limits, allow_redirects=False
            ) as reply:
                return reply.status, await reply.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as fault:
            return 0, f"{endpoint.url}: {fault or 'timed out'}"

    async def _deliver(self, lot: Sequence[Ticket]) -> None:
        """Ask until every ticket of the lot is settled or given up."""
        while any(ticket.wanted for ticket in lot):
            endpoint = await self._choose()
            wanted = [ticket for ticket in lot if ticket.wanted]
            try:
                await self._ask(endpoint, wanted)
            except _Unavailable as fault:
                self._leave_alone(endpoint, fault)
                for ticket in wanted:
                    ticket.fault = (fault.reason, str(fault))

    async def _choose(self) -> Endpoint:
        """The endpoint to ask, once there is one to be asked."""
        now = asyncio.get_running_loop().time
        while (endpoint := self._endpoints.choose(now())) is None:
            try:
                async with asyncio.timeout(self._endpoints.opening(now())):
                    await self._opened.wait()
            except TimeoutError:
                continue  # One has rested.
        return endpoint

    def _leave_alone(self, endpoint: Endpoint, fault: _Unavailable) -> None:
        if fault.reason in ("overload", "timeout"):
            endpoint.rest(asyncio.get_running_loop().time(), fault.rest)
        elif endpoint.eject():
            _log.warning("%s is out of use until it is ready again: %s", endpoint.url, fault)
            probe = asyncio.create_task(self._win_back(endpoint))
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)

    async def _win_back(self, endpoint: Endpoint) -> None:
        """Probe an ejected endpoint, with growing pauses, until it is ready."""
        await asyncio.sleep(endpoint.pause())
        while not await self._is_ready(endpoint):
            endpoint.strikes += 1
            await asyncio.sleep(endpoint.pause())
        endpoint.readmit(asyncio.get_running_loop().time())
        _log.warning("ready again: %s", endpoint.url)
        self._opened.set()
        self._opened.clear()  # Wakes those who wait now, and nobody later.

    async def _ask(self, endpoint: Endpoint, lot: Sequence[Ticket]) -> None:
        """Settle a lot by one request; _Unavailable if the endpoint gave no verdicts."""
        status, headers, body = await self._post(endpoint, [ticket.item for ticket in lot])
        if status in _DENIED:
            denied = ValueError(f"{endpoint.url} refuses the token ({status}); set {TOKEN}")
            for ticket in lot:
                ticket.settle(denied)
        elif status in _REFUSED:
            await self._find_refused(endpoint, lot, body)
        else:
            verdicts = _verdicts([ticket.item for ticket in lot], status, headers, body)
            endpoint.succeeded()
            for ticket, verdict in zip(lot, verdicts, strict=True):
                ticket.settle(verdict)

    async def _find_refused(self, endpoint: Endpoint, lot: Sequence[Ticket], body: bytes) -> None:
        """Halve a refused lot until the item at fault is alone: it costs no other its verdict."""
        if len(lot) == 1:
            said = body[:500].decode(errors="replace")
            lot[0].settle(ValueError(f"the reward service refuses the item: {said}"))
            return
        middle = len(lot) // 2
        for half in (lot[:middle], lot[middle:]):
            await self._ask(endpoint, half)

    async def _post(
        self, endpoint: Endpoint, items: Sequence[Entry]
    ) -> tuple[int, Mapping[str, str], bytes]:
        assert self._session is not None
        body = Request.model_construct(items=list(items)).model_dump_json()
        endpoint.outstanding += 1
        try:
            async with self._session.post(
                f"{endpoint.url}/v1/score", data=body, headers=_JSON, allow_redirects=False
            ) as reply:
                return reply.status, reply.headers, await reply.read()
        except aiohttp.ClientError as fault:
            raise _Unavailable("unreachable", f"{endpoint.url}: {fault}") from None
        except TimeoutError:  # A slow lot tells nothing of an endpoint's health.
            said = f"{endpoint.url}: no reply within {self._timeout:g} s"
            raise _Unavailable("timeout", said) from None
        finally:
            endpoint.outstanding -= 1


def _headers(token: str | None) -> dict[str, str]:
    """The header that shows `token`; ValueError, which does not tell it, if none can."""
    token = (os.environ.get(TOKEN, "") if token is None else token).strip()
    if not token:
        return {}
    if not (token.isascii() and token.isprintable()):
        raise ValueError(f"the reward service's token ({TOKEN}) is not printable ASCII")
    return {"Authorization": f"Bearer {token}"}


def _verdicts(
    items: Sequence[Entry], status: int, headers: Mapping[str, str], body: bytes
) -> list[Verdict]:
    """The verdicts of a reply; _Unavailable if it gives none."""
    if status in _OVERLOADED:
        said = f"HTTP {status}: {body[:200]!r}"
        raise _Unavailable("overload", said, _seconds(headers.get("Retry-After", "")))
    if status != 200:
        raise _Unavailable("protocol", f"HTTP {status}: {body[:200]!r}")
    try:
        verdicts = Response.model_validate_json(body).verdicts
    except ValidationError as fault:
        said = fault.errors(include_input=False, include_url=False)[0]["msg"]
        raise _Unavailable("protocol", f"not a list of verdicts: {said}") from None
    if [verdict.id for verdict in verdicts] != [item.id for item in items]:
        raise _Unavailable("protocol", "the verdicts are not those of the items")
    return verdicts


def _seconds(text: str) -> float | None:
    """A Retry-After in seconds; its other form, a date, is not worth trusting two clocks."""
    return float(text) if text.isascii() and text.isdigit() else None


class BlockingRewardClient:
    """The same for code without an event loop; use as `with`, in one thread."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        token: str | None = None,
        timeout: float = 120.0,
        patience: float = 180.0,
    ) -> None:
        self._runner = asyncio.Runner()
        self._client = RewardClient(url, token=token, timeout=timeout, patience=patience)

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

    def score(self, items: Sequence[Entry]) -> list[Verdict]:
        """As `RewardClient.score`."""
        return self._runner.run(self._client.score(items))

    def ready(self) -> bool:
        """As `RewardClient.ready`."""
        return self._runner.run(self._client.ready())
