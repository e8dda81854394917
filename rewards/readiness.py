"""Whether verifiers work: each is asked for the verdicts of its canaries, at the start and then on.

At a low rate, by the same way as any item. A canary that has to wait behind others says nothing.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from rewards.schema import Item, Verdict
from rewards.verifiers import Canary, Profile

_EVERY = 30.0
_EVERY_REMOTE = 5.0
_AGAIN = 1.0
"""Seconds from one canary of a verifier to the next, if it passed and if it did not."""

_BUSY = 30.0
"""Seconds for which a service that has no room is as ready as it was."""

_log = logging.getLogger(__name__)


class Readiness:
    """Asks `probe` about the canaries of `profiles`; `within` bounds each, in seconds.

    `reasons` say for each verifier why it is not ready, or None; what changes is logged.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        probe: Callable[[Item], Awaitable[Verdict]],
        within: float,
    ) -> None:
        self.reasons: dict[str, str | None] = {one.name: "starting" for one in profiles}
        self._profiles = profiles
        self._probe = probe
        self._within = within
        self._passed = dict.fromkeys(self.reasons, -math.inf)

    async def run(self) -> None:
        """Keep `reasons` up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for profile in self._profiles:
                group.create_task(self._watch(profile))

    async def _watch(self, profile: Profile) -> None:
        every = _EVERY_REMOTE if profile.runs == "remote" else _EVERY
        told: bool | None = None
        for canary in cycle(profile.canaries):
            reason = await self.reason(canary)
            self.reasons[profile.name] = reason
            if told != (reason is None):
                told = reason is None
                _log.warning("rewards: %s is %s", profile.name, _state(reason))
            await asyncio.sleep(every if reason is None else _AGAIN)

    async def reason(self, canary: Canary) -> str | None:
        """Ask about `canary`: why its verifier is not ready, if it is not."""
        item = canary.item
        try:
            async with asyncio.timeout(self._within):
                verdict = await self._probe(item)
        except TimeoutError:
            return self.reasons[item.verifier]
        except Exception as fault:  # noqa: BLE001 - an inline verifier's fault is its reason
            return f"canary {item.id}: {type(fault).__name__}: {fault}"
        now = time.monotonic()
        if canary.passes(verdict):
            self._passed[item.verifier] = now
            return None
        if _is_overload(verdict) and now - self._passed[item.verifier] < _BUSY:
            return None
        why = f"{verdict.reason}: {verdict.detail}" if verdict.score is None else verdict.score
        return f"canary {item.id}: {verdict.status} ({why}), not {canary.score:g}"


def _state(reason: str | None) -> str:
    return "ready" if reason is None else f"not ready: {reason}"


def _is_overload(verdict: Verdict) -> bool:
    """Whether another service had no room for the canary."""
    return verdict.status == "failed" and (verdict.reason or "").endswith("overload")
