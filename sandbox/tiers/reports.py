"""What comes back of a run over its socket: bounded, as programs have a say in its size."""

import asyncio
import json
import socket
from typing import Any

from sandbox.tiers.inside.frames import LENGTH

_MOST_HEADER = 2**20


async def exchange(ours: socket.socket, content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Send an order; its report, as frames.receive; EOFError if there is none."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(ours, content)
    stream = bytearray()
    while len(stream) < LENGTH.size:
        stream += await _more(ours)
    length = LENGTH.unpack_from(stream)[0]
    if length > _MOST_HEADER:
        raise ValueError(f"a report's header of {length} bytes")
    head = LENGTH.size + length
    while len(stream) < head:
        stream += await _more(ours)
    header = json.loads(bytes(stream[LENGTH.size : head]))
    sizes = header["sizes"]
    while len(stream) < head + sum(sizes):
        stream += await _more(ours)
    parts = []
    for size in sizes:
        parts.append(bytes(stream[head : head + size]))
        head += size
    return header, parts


async def _more(ours: socket.socket) -> bytes:
    part = await asyncio.get_running_loop().sock_recv(ours, 2**18)
    if not part:
        raise EOFError("the stream ended")
    return part
