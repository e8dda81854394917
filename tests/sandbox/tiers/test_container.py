"""A container's streams and a program's channel, with a daemon that sends as the test says."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandbox.tiers import container
from sandbox.tiers.container import Conversation, Streams
from sandbox.tiers.inside.frames import frame

MIB = 2**20
Scene = Callable[[Streams, socket.socket], Awaitable[None]]


def play(scene: Scene) -> None:
    """Act out a scene with the streams of a container and the daemon's end of them."""

    async def whole() -> None:
        attached, daemon = socket.socketpair()
        daemon.setblocking(False)
        streams = Streams(attached)
        try:
            async with asyncio.timeout(60):
                await scene(streams, daemon)
        finally:
            streams.close()
            daemon.close()

    asyncio.run(whole())


async def send(daemon: socket.socket, content: bytes, kind: int = 1) -> None:
    """As the daemon does, in pieces."""
    for at in range(0, len(content), 2**15):
        piece = content[at : at + 2**15]
        head = struct.pack(">BxxxI", kind, len(piece))
        await asyncio.get_running_loop().sock_sendall(daemon, head + piece)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was parsed as JSON."""
    seen: list[bytes] = []
    plain = json.loads

    def loads(text: Any) -> Any:
        seen.append(bytes(text))
        return plain(text)

    monkeypatch.setattr(container.json, "loads", loads)
    return seen


def test_a_frames_header_is_parsed_once_in_however_many_pieces_it_comes(
    parsed: list[bytes],
) -> None:
    parts = [b"x" * 4 * MIB, b"", b"y" * 100]

    async def scene(streams: Streams, daemon: socket.socket) -> None:
        content = frame({"a": 1}, parts) + frame({"b": 2}, [])
        sending = asyncio.create_task(send(daemon, content))
        assert await streams.receive() == ({"a": 1, "sizes": [4 * MIB, 0, 100]}, parts)
        assert await streams.receive() == ({"b": 2, "sizes": []}, [])
        await sending

    play(scene)
    assert len(parsed) == 2


def test_a_frame_is_not_lost_where_waiting_for_it_is_given_up() -> None:
    async def scene(streams: Streams, daemon: socket.socket) -> None:
        content = frame({"a": 1}, [b"part"])
        await send(daemon, content[:-2])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(streams.receive(), 0.05)
        await send(daemon, content[-2:])
        assert (await streams.receive())[1] == [b"part"]

    play(scene)


def test_a_container_that_has_gone_is_told_with_what_it_said() -> None:
    async def scene(streams: Streams, daemon: socket.socket) -> None:
        await send(daemon, b"last words", kind=2)
        daemon.close()
        with pytest.raises(ConnectionError, match="gone"):
            await streams.receive()
        assert streams.errors == b"last words"

    play(scene)


def test_a_program_cannot_fill_the_services_memory_through_its_channel() -> None:
    async def scene(streams: Streams, _: socket.socket) -> None:
        conversation = Conversation(streams)
        for _ in range(100):
            conversation.feed(bytes(MIB))
        held = 0
        while part := await conversation.read(MIB):
            held += len(part)
        assert held == 16 * MIB
        with pytest.raises(BrokenPipeError):
            await conversation.write(b"more")

    play(scene)


def test_what_was_read_of_a_channel_is_held_no_longer() -> None:
    async def scene(streams: Streams, _: socket.socket) -> None:
        conversation = Conversation(streams)
        for _ in range(100):
            conversation.feed(bytes(MIB))
            assert len(await conversation.read(2 * MIB)) == MIB
        conversation.feed(b"")
        assert await conversation.read(1) == b""

    play(scene)
