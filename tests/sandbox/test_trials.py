"""Tests beside a program: what becomes of one when the other breaks or the caller leaves."""

import asyncio

import pytest

from sandbox.judging.exchange import Relay
from sandbox.judging.trials import _both
from sandbox.tiers import Run, SlotLost


def test_a_caller_that_leaves_while_the_program_is_ended_is_heard() -> None:
    """The tests' slot was lost; that must not take the place of the caller's own end."""

    async def tests() -> Run:
        raise SlotLost("died", "killed by the test")

    async def scene() -> None:
        ending = asyncio.Event()

        async def program() -> Run:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await asyncio.sleep(0.05)
            raise AssertionError("it never ends by itself")

        both = asyncio.ensure_future(_both(tests(), program(), Relay({})))
        await ending.wait()
        both.cancel()
        with pytest.raises(asyncio.CancelledError):
            await both

    asyncio.run(scene())
