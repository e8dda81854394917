"""The service's end of one worker process: an item goes in, a verdict comes out, or it is lost.

A worker that is late, dead or faulty is never asked again, since nobody knows what it is doing.
"""

import asyncio
from dataclasses import dataclass

from pydantic import ValidationError

from rewards.schema import Item, Verdict, Wire
from rewards.zygote import HEADER


class Lost(Exception):
    """A process of ours is of no more use; `cause` is `deadline`, `crash` or `error`."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class _Reply(Wire):
    verdict: Verdict | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Worker:
    """One process, forked by a zygote, and the channel to it."""

    pid: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended while it was idle."""
        return self.reader.at_eof()

    async def check(self, item: Item, deadline: float) -> Verdict:
        """Its verdict on `item` within `deadline` seconds from now; Lost otherwise."""
        try:
            async with asyncio.timeout(deadline):
                reply = await self._exchange(item.model_dump_json().encode())
        except TimeoutError:
            raise Lost("deadline", f"no verdict within {deadline:g} s") from None
        except (OSError, asyncio.IncompleteReadError):
            raise Lost("crash", "the worker ended during the check") from None
        except ValidationError as fault:
            raise Lost("error", f"the verifier's verdict is malformed: {fault}") from None
        if reply.verdict is None:
            raise Lost("error", reply.fault or "the verifier gave no verdict")
        return reply.verdict

    async def _exchange(self, body: bytes) -> _Reply:
        self.writer.write(HEADER.pack(len(body)) + body)
        await self.writer.drain()
        size = HEADER.unpack(await self.reader.readexactly(HEADER.size))[0]
        return _Reply.model_validate_json(await self.reader.readexactly(size))
