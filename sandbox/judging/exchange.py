"""Our end of a program's channel. Whatever comes from there is bounded before it is looked at."""

import asyncio
from collections.abc import Mapping
from typing import Any

from sandbox.judging.inside import codec
from sandbox.judging.inside.frames import HEADER, framed
from sandbox.tiers import Channel

Message = tuple[bytes, bytes]
GONE: Message = (b"G", b"")
"""Told to the tests when the program has ended."""

_EACH = 1000
"""Bytes that a message weighs by itself."""


async def receive(channel: Channel) -> Message | None:
    """Kind and content of the next message; None at the end. Refused if it is too large."""
    head = await _exactly(channel, HEADER.size)
    if head is None:
        return None
    kind, length = HEADER.unpack(head)
    if length > codec.BYTES:
        raise codec.Refused("too large")
    content = await _exactly(channel, length)
    return None if content is None else (kind, content)


async def _exactly(channel: Channel, size: int) -> bytes | None:
    pieces, missing = [], size
    while missing:
        piece = await channel.read(missing)
        if not piece:
            return None
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


class Question:
    """One request to a program's harness, and its answer; `talk` is the talk of that program.

    `answer` is None where there came none that can be read, and `refusal` says why, if known.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.answer: dict[str, Any] | None = None
        self.refusal: str | None = None
        self._message = framed(b"Q", codec.write(request))

    async def talk(self, channel: Channel) -> None:
        """Ask, and take in the answer."""
        try:
            await channel.write(self._message)
            message = await receive(channel)
            if message is not None:
                answer = codec.parse(message[1])
                if not isinstance(answer, dict):
                    raise codec.Refused("no answer")
                self.answer = answer
        except OSError:
            return
        except codec.Refused as refusal:
            self.refusal = str(refusal)


class Relay:
    """Carries messages between tests and the program they are about; keeps the tests' record.

    `taken` counts what the program has sent, in bytes and with a share for each message.
    """

    def __init__(self, begin: Mapping[str, Any]) -> None:
        self.record: bytes | None = None
        self.taken = 0
        self._begin = framed(b"B", codec.write(begin))
        self._asked: asyncio.Queue[Message | None] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self._gone = False

    async def with_tests(self, channel: Channel) -> None:
        """The talk of the tests' box: until it closes its end."""
        try:
            await channel.write(self._begin)
            while (message := await receive(channel)) is not None:
                if message[0] == b"V":
                    self.record = message[1] if self.record is None else b""
                else:
                    await channel.write(framed(*await self._ask(message)))
        except (OSError, codec.Refused):
            return

    async def with_program(self, channel: Channel) -> None:
        """The talk of the program's box: until the tests have ended."""
        try:
            while (message := await self._asked.get()) is not None:
                await channel.write(framed(*message))
                answer = await receive(channel)
                if answer is None or answer[0] not in (b"A", b"C"):
                    return
                self.taken += len(answer[1]) + _EACH
                self._answers.put_nowait(answer)
        except (OSError, codec.Refused):
            return
        finally:
            self.program_ended()

    async def _ask(self, message: Message) -> Message:
        if self._gone and self._answers.empty():
            return GONE
        self._asked.put_nowait(message)
        return await self._answers.get()

    def program_ended(self) -> None:
        """Nothing more comes from the program."""
        self._gone = True
        self._answers.put_nowait(GONE)

    def tests_ended(self) -> None:
        """Nothing more is asked of the program."""
        self._asked.put_nowait(None)
