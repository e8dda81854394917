"""Messages over a byte stream: one byte for the kind, four for the length, then the content."""

import struct
from typing import Any, Protocol

from .codec import BYTES, Refused

HEADER = struct.Struct(">cI")


class Stream(Protocol):
    """What a socket offers."""

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; empty at the end."""
        ...

    def sendall(self, data: Any) -> None:
        """Send all of `data`."""
        ...


def framed(kind: bytes, content: bytes) -> bytes:
    """One message; Refused if it is too large to be read at the other end."""
    if len(content) > BYTES:
        raise Refused("too large")
    return HEADER.pack(kind, len(content)) + content


def receive(stream: Stream) -> tuple[bytes, bytes]:
    """Kind and content of the next message; EOFError at the end of the stream."""
    kind, length = HEADER.unpack(_exactly(stream, HEADER.size))
    return kind, _exactly(stream, length)


def _exactly(stream: Stream, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = stream.recv(size - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content
