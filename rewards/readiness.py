"""Whether verifiers work: each is asked for the verdicts of its canaries, at the start and then on.

At a low rate, by the same way as any item. A canary that has to wait behind others says nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from rewards.schema import Item, Verdict
from rewards.verifiers import Canary, Profile

_EVERY = 30.0
_AGAIN = 1.0
"""Seconds from one canary of a verifier to the next, if it passed and if it did not."""


class Readiness:
    """Asks `probe` about the canaries of `profiles`; `within` bounds each, in seconds.

    `reasons` say for each verifier why it is not ready, or None.
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

    async def run(self) -> None:
        """Keep `reasons` up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for profile in self._profiles:
                group.create_task(self._watch(profile))

    async def _watch(self, profile: Profile) -> None:
        for canary in cycle(profile.canaries):
            reason = await self.reason(canary)
            self.reasons[profile.name] = reason
            await asyncio.sleep(_EVERY if reason is None else _AGAIN)

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
        if canary.passes(verdict):
            return None
        why = f"{verdict.reason}: {verdict.detail}" if verdict.score is None else verdict.score
        return f"canary {item.id}: {verdict.status} ({why}), not {canary.score:g}"
