"""What the service and the sandbox say to each other about a run: a JSON header, then raw parts.

A frame is the header's length (4 bytes, big-endian), the header, and the parts it gives the sizes
of in `sizes`.

Order: {argv, script, env, files: [name], keep: [name], limits: {wall, cpu, memory, processes,
output, files}, channel, usage_scale, bounded, threads}; parts: the files. `usage_scale`: counts of
the processor counter to a second, or 0 if there is none; `bounded`: whether the kernel bounds
memory; `threads`: RLIMIT_NPROC, where the kernel bounds processes in no other way.
Report: {ending, exit_code, signal, wall, cpu, kept: [name]}; parts: stdout, stderr, the kept files.
Or {fault}: our own, with no parts.
"""

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

Read = Callable[[int], bytes]
LENGTH = struct.Struct(">I")
_CHUNK = 2**20


def frame(header: dict[str, Any], parts: Sequence[bytes]) -> bytes:
    """Header and parts as bytes."""
    head = json.dumps({**header, "sizes": [len(part) for part in parts]}).encode()
    return b"".join((LENGTH.pack(len(head)), head, *parts))


def receive(read: Read) -> tuple[dict[str, Any], list[bytes]]:
    """A whole frame, by blocking reads of at most so many bytes; EOFError if it ends before."""
    header = receive_header(read)
    return header, receive_parts(read, header)


def receive_header(read: Read) -> dict[str, Any]:
    """The header of a frame, by which its parts can be received, here or elsewhere."""
    header: dict[str, Any] = json.loads(exactly(read, LENGTH.unpack(exactly(read, 4))[0]))
    return header


def receive_parts(read: Read, header: dict[str, Any]) -> list[bytes]:
    """The parts that follow a header."""
    return [exactly(read, size) for size in header["sizes"]]


def exactly(read: Read, size: int) -> bytes:
    """So many bytes; EOFError if there are fewer."""
    parts = []
    while size:
        part = read(min(size, _CHUNK))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
