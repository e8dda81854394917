"""HTTP/1.1 by uvicorn and httptools, in which a request can be answered as soon as it is read.

ASGI takes a task, six messages and two writes for each request, which is several times what a short
check costs. So a POST to `AT_ONCE` that has arrived whole is first offered to the application's
`at_once`; what that declines, and all else, goes uvicorn's way, in which head and body of a reply
are gathered into one write.

No client makes a connection hold much, or for long, by what it sends beside bodies, and what it
sends behind one is no header.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

AT_ONCE = "/v1/score"
_PATH = AT_ONCE.encode()

BESIDE = 2**16
"""Most bytes of a request beside its body, once they take more than one read."""


class Gathering:
    """A transport that sends what was written during one turn of the event loop at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send `data` at the end of this turn, or before the transport closes."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(data)

    def close(self) -> None:
        """Send what there is, then close."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send what there is."""
        if self._written:
            self._transport.write(b"".join(self._written))
            self._written.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn is not followed
    """uvicorn's, on a transport that gathers; `app` has `at_once` (see front.py)."""

    _held: list[bytes] | None = None
    """The body so far of a request that may be answered at once, and is not begun otherwise."""

    _beside = 0
    """Bytes that have come since the last of a body, or the last end of a request."""

    _due: float | None = None
    """When the rest must be there of what a client has begun and no request waits for."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(Gathering(transport, self.loop))
        self._await_rest()

    def data_received(self, data: bytes) -> None:
        """Bytes have come; a request that they do not end goes uvicorn's way."""
        self._beside += len(data)
        super().data_received(data)
        self._begin()
        if self._beside > BESIDE and not self.transport.is_closing():
            self.send_400_response(f"a request has at most {BESIDE} bytes beside its body")
        if self.timeout_keep_alive_task is None:
            self._await_rest()

    def on_headers_complete(self) -> None:
        """A request's head is read."""
        self._due = None
        if self._may_be_at_once():
            self._held = []
        else:
            super().on_headers_complete()
        # What comes behind a body goes here, not to the scope.
        self.headers: list[tuple[bytes, bytes]] = []

    def on_body(self, body: bytes) -> None:
        """A part of its body is."""
        self._beside = 0
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        """All of it is."""
        self._beside, self._due = 0, None
        if self._held is not None:
            reply = self._at_once(b"".join(self._held))
            if reply is not None:
                self._held = None
                self._answer(*reply)
                return
            self._begin()
        super().on_message_complete()

    def _at_once(self, body: bytes) -> tuple[bytes, str] | None:
        try:
            reply: tuple[bytes, str] | None = self.app.at_once(dict(self.scope["headers"]), body)
        except Exception:  # noqa: BLE001 - uvicorn's way meets it again, and reports it
            return None
        return reply

    def _may_be_at_once(self) -> bool:
        return (
            self.url == _PATH
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() != "1.0"
            and not (self.parser.should_upgrade() or self.expect_100_continue)
        )

    def _begin(self) -> None:
        """Have uvicorn begin with the request that is held, if there is one."""
        if self._held is not None:
            held, self._held = self._held, None
            super().on_headers_complete()
            for part in held:
                super().on_body(part)

    def _await_rest(self) -> None:
        """Close the connection if the rest is late; a request under way has bounds of its own."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or self.transport.is_closing():
            return
        if self._due is None:
            self._due = self.loop.time() + self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_at(self._due, self.timeout_keep_alive_handler)

    def _answer(self, body: bytes, kind: str) -> None:
        head = [b"HTTP/1.1 200 OK\r\n"]
        head += [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        head.append(b"content-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind.encode(), len(body)))
        self.transport.write(b"".join([*head, body]))
        self.on_response_complete()
