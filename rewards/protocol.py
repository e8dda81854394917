"""HTTP/1.1 by uvicorn and httptools, with head and body of a reply in one write.

ASGI hands them over one after the other, and a write for each is two system calls here and two
wake-ups of the client: a quarter and more of what a short request costs.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Gathering:
    """A transport that sends what was written during one turn of the event loop at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send `data` at the end of this turn, or before the transport closes."""
        if not self._written:
            self._loop.call_soon(self._flush)
        self._written.append(data)

    def close(self) -> None:
        """Send what there is, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._written:
            self._transport.write(b"".join(self._written))
            self._written.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn is not followed
    """uvicorn's, on a transport that gathers."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(Gathering(transport, self.loop))
