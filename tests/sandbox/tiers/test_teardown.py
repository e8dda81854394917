"""Slots whose end, or start, is cut short: nothing of them stays."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sandbox.tiers import Slot, SlotLost, namespaces, zygote
from sandbox.tiers.namespaces import Namespaces, Settings
from sandbox.tiers.zygote import Zygote
from tests.sandbox.tiers.stand import Stand
from tests.sandbox.tiers.test_slots import HELLO, belongings

Patch = pytest.MonkeyPatch


async def _run(slot: Slot) -> None:
    await slot.run(HELLO)


async def _close(slot: Slot) -> None:
    await slot.close()


@pytest.mark.parametrize("leavings", [1, 2])
@pytest.mark.parametrize("act", [_run, _close])
def test_a_slot_is_torn_down_though_its_user_leaves_meanwhile(
    act: Callable[[Slot], Coroutine[Any, Any, None]], leavings: int, monkeypatch: Patch
) -> None:
    ending = asyncio.Event()
    plain = Zygote.end

    async def end(self: Zygote) -> None:
        ending.set()
        await asyncio.sleep(0.05)
        await plain(self)

    async def leave(slot: Slot) -> None:
        acting = asyncio.ensure_future(act(slot))
        await ending.wait()
        for _ in range(leavings):
            acting.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await acting

    monkeypatch.setattr(Zygote, "end", end)
    stand = Stand(Namespaces(Settings(recycle_after=1)))
    taken, before = set(namespaces._taken), belongings()
    slot = stand.do(stand.tier.slot())
    stand.do(leave(slot))
    assert belongings() == before
    stand.do(slot.close())
    assert namespaces._taken == taken
    stand.close()


def _fails(*_: object, **__: object) -> Any:
    raise OSError(24, "too many open files")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Namespaces, "_launch"), (zygote, "_sealed"), (zygote.subprocess, "Popen"),
        (zygote.os, "pipe"), (zygote.socket, "socketpair"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_slot_that_cannot_be_started_leaves_nothing(
    owner: Any, name: str, monkeypatch: Patch
) -> None:
    stand = Stand(Namespaces())
    taken, before = set(namespaces._taken), belongings()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _fails)
        with pytest.raises(SlotLost, match="too many open files"):
            stand.do(stand.tier.slot())
    assert belongings() == before
    assert namespaces._taken == taken
    stand.close()
