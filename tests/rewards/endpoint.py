"""A stand-in for a service inside the test's event loop: it answers, or fails as it is told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rewards.media import JSON, decode
from rewards.schema import COMPOSITE, Entry, Item, Response, scored

Deed = Callable[["Endpoint", web.Request], Awaitable[web.StreamResponse]]


async def verdicts(endpoint: "Endpoint", request: web.Request) -> web.StreamResponse:
    """Score every item 1."""
    lot = [scored(_plain(entry), 1.0) for entry in endpoint.lots[-1]]
    return web.Response(
        body=Response(verdicts=lot).model_dump_json(), content_type="application/json"
    )


def _plain(entry: Entry) -> Item:
    return entry if isinstance(entry, Item) else Item(id=entry.id, verifier=COMPOSITE, answers=[])


async def death(endpoint: "Endpoint", request: web.Request) -> web.StreamResponse:
    """Begin to answer, then drop the connection; no longer ready."""
    endpoint.ready = False
    reply = web.StreamResponse(headers={"Content-Length": "1000"})
    await reply.prepare(request)
    await reply.write(b'{"verdicts": [')
    assert request.transport is not None
    request.transport.abort()
    return reply


async def silence(endpoint: "Endpoint", request: web.Request) -> web.StreamResponse:
    """Never answer; counts the clients that left."""
    try:
        await asyncio.sleep(60)
    finally:
        endpoint.left += 1
    return web.Response()


async def garbage(endpoint: "Endpoint", request: web.Request) -> web.StreamResponse:
    """Answer what means nothing."""
    return web.Response(body=b"\xff\xfe 1.0")


def refusing(status: int, **headers: str) -> Deed:
    """Refuse with `status`; an underscore of a header's name stands for a dash."""

    async def refuse(endpoint: "Endpoint", request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, headers=named)

    return refuse


@dataclass
class Endpoint:
    """What was asked of it, and its next `deeds`; when these are used up it scores every item 1."""

    deeds: list[Deed] = field(default_factory=list)
    ready: bool = True
    url: str = ""
    lots: list[list[Entry]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    left: int = 0

    async def score(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/score."""
        self.times.append(asyncio.get_running_loop().time())
        self.tokens.append(request.headers.get("Authorization"))
        self.lots.append(list(decode(await request.read(), JSON)))
        deed = self.deeds.pop(0) if self.deeds else verdicts
        return await deed(self, request)

    async def readyz(self, request: web.Request) -> web.Response:
        """GET /readyz."""
        return web.json_response({"ready": self.ready}, status=200 if self.ready else 503)


@asynccontextmanager
async def standing(*deeds: Deed, **state: Any) -> AsyncIterator[Endpoint]:
    """An endpoint on a free port of loopback."""
    endpoint = Endpoint(list(deeds), **state)
    application = web.Application()
    application.router.add_post("/v1/score", endpoint.score)
    application.router.add_get("/readyz", endpoint.readyz)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield endpoint
    finally:
        await runner.cleanup()
