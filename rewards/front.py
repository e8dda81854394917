"""The HTTP face of scoring, and the guard in front of everything: plain ASGI, since it is hot.

POST /v1/score is answered here, other paths by the application behind. Where nothing has to be
waited for, `at_once` answers before there is an ASGI request (see protocol.py). Every path but
/healthz needs the bearer token, if there is one. Refusals are JSON, `{"detail": ...}`.
"""

import asyncio
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rewards.arrivals import Arrivals
from rewards.media import JSON, MSGPACK, Malformed, decode, encode, medium
from rewards.metrics import Metrics
from rewards.nursery import StartFault
from rewards.protocol import AT_ONCE
from rewards.schema import Entry
from rewards.scorer import Gone, Overloaded
from rewards.service import Service

SCORE = AT_ONCE
BODY = 64 * 2**20
"""Most bytes of a request's body."""

_OPEN = "/healthz"
_TOO_LARGE = f"a body has at most {BODY} bytes"
_STOPPING = "the service is stopping"
_BUSY = {"Retry-After": "1"}


class Refusal(Exception):
    """A reply other than 200."""

    def __init__(self, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.detail = detail
        self.headers = headers or {}


class Front:
    """The ASGI application: scoring and the guard, with `app` behind them."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        metrics: Metrics,
        arrivals: Arrivals,
        token: str | None = None,
    ) -> None:
        self._app = app
        self._service = service
        self._arrivals = arrivals
        self._metrics = metrics
        self._secret = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = dict(scope["headers"])
            self._guard(scope["path"], headers)
            if scope["path"] != SCORE:
                await self._app(scope, receive, send)
                return
            status, body, kind = 200, *await self._score(scope["method"], headers, receive)
            extra: Mapping[str, str] = {}
        except Refusal as refusal:
            status, kind, extra = refusal.status, JSON, refusal.headers
            body = json.dumps({"detail": refusal.detail}).encode()
        except Gone:
            return
        if scope["path"] == SCORE:
            self._metrics.request(status)
        await _reply(send, status, body, kind, extra)

    def at_once(self, headers: Mapping[bytes, bytes], body: bytes) -> tuple[bytes, str] | None:
        """Body and medium of the reply to a POST to score, if it is 200 and needs no waiting."""
        kind = medium(headers.get(b"content-type", b"").decode("latin-1"))
        if kind is None or not self._trusts(headers) or self._service.scorer is None:
            return None
        try:
            verdicts = self._service.scorer.at_once(decode(body, kind))
        except Malformed:
            return None
        if verdicts is None:
            return None
        kind = _wanted(headers.get(b"accept", b""), kind)
        reply = encode(verdicts, kind)
        self._metrics.request(200)
        return reply, kind

    def _trusts(self, headers: Mapping[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"")
        return self._secret is None or hmac.compare_digest(given, self._secret)

    def _guard(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        if path != _OPEN and not self._trusts(headers):
            raise Refusal(401, "give the token: `Authorization: Bearer ...`",
                          {"WWW-Authenticate": "Bearer"})  # fmt: skip

    async def _score(
        self, method: str, headers: Mapping[bytes, bytes], receive: Receive
    ) -> tuple[bytes, str]:
        """The body of the reply and its medium."""
        if method != "POST":
            raise Refusal(405, "use POST", {"Allow": "POST"})
        kind = medium(headers.get(b"content-type", b"").decode("latin-1"))
        if kind is None:
            raise Refusal(415, f"send {JSON} or {MSGPACK}")
        entries = _decoded(await self._body(headers, receive), kind)
        try:
            scorer = self._service.scorer or await self._service.started()
            fresh = b"no-cache" in headers.get(b"cache-control", b"").lower()
            verdicts = await scorer.score(entries, lambda: _disconnected(receive), fresh=fresh)
        except Overloaded:
            raise Refusal(429, "the queue is full; try again", _BUSY) from None
        except asyncio.CancelledError:  # Only the server's end cancels a request.
            raise Refusal(503, _STOPPING, _BUSY) from None
        except StartFault as fault:
            raise Refusal(503, str(fault), _BUSY) from None
        except OSError as fault:
            raise Refusal(503, f"the ledger cannot be written: {fault}", _BUSY) from None
        kind = _wanted(headers.get(b"accept", b""), kind)
        return encode(verdicts, kind), kind

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """All of the body; Refusal if it is late, too large, or the service ends; Gone."""
        task = self._arrivals.begin()
        try:
            body = await _body(headers, receive)
        except asyncio.CancelledError:
            if not self._arrivals.end(task):
                raise Refusal(503, _STOPPING, _BUSY) from None
            within = f"{self._arrivals.within:g} s"
            raise Refusal(408, f"the body did not arrive within {within}") from None
        except BaseException:
            self._arrivals.end(task)
            raise
        self._arrivals.end(task)
        return body


def _decoded(body: bytes, kind: str) -> Sequence[Entry]:
    try:
        return decode(body, kind)
    except Malformed as fault:
        raise Refusal(422, fault.problems) from None


def _wanted(accept: bytes, kind: str) -> str:
    """The medium that a client asks for; that of its request where it leaves the choice."""
    if b"msgpack" in accept:
        return MSGPACK
    return JSON if b"json" in accept else kind


async def _body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """All of the body; Refusal if it is too large, Gone if the client leaves."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > BODY:
        raise Refusal(413, _TOO_LARGE)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body = await _rest(body, receive)
    elif message["type"] == "http.disconnect":
        raise Gone
    return body


async def _rest(body: bytes, receive: Receive) -> bytes:
    parts, size, more = [body], len(body), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > BODY:
            raise Refusal(413, _TOO_LARGE)
    return b"".join(parts)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, status: int, body: bytes, kind: str, extra: Mapping[str, str]) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in extra.items()]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
