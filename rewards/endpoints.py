"""What is known of the health of one service's endpoints. Decides only: it sends nothing.

An endpoint that failed is ejected until a probe finds it ready, with growing pauses between probes;
one that is overloaded rests as long as it asked for. Among the others the least busy is chosen.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
LONGEST_REST = 60.0
"""Seconds; a longer Retry-After is not believed."""


@dataclass(eq=False)
class Endpoint:
    """One URL; `opens` is the time from which it may be asked, infinite while it is ejected.

    `outstanding` counts the requests under way, `strikes` the faults since its last success.
    """

    url: str
    outstanding: int = 0
    opens: float = 0.0
    strikes: int = 0
    chosen: int = 0

    @property
    def ejected(self) -> bool:
        """Whether only a probe can bring it back."""
        return math.isinf(self.opens)

    def succeeded(self) -> None:
        """It gave verdicts."""
        self.strikes = 0

    def rest(self, now: float, asked: float | None) -> None:
        """It is overloaded and `asked` for so many seconds (Retry-After), or for none."""
        if now < self.opens:
            return  # Others of the same burst were refused before.
        self.strikes += 1
        pause = self.pause() if asked is None else min(max(asked, FIRST_PAUSE), LONGEST_REST)
        self.opens = now + pause

    def eject(self) -> bool:
        """It failed; returns whether it was in service until now, so that a probe is to begin."""
        if self.ejected:
            return False
        self.strikes += 1
        self.opens = math.inf
        return True

    def readmit(self, now: float) -> None:
        """A probe found it ready. Its strikes stay until it gives verdicts."""
        self.opens = now

    def pause(self) -> float:
        """Seconds to leave it alone: doubled with each strike, and never in step with others."""
        longest = min(FIRST_PAUSE * 2.0 ** (self.strikes - 1), LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.0)


class Endpoints:
    """The endpoints of one service; ValueError without any, or for one that is no HTTP URL."""

    def __init__(self, urls: Sequence[str]) -> None:
        if not urls:
            raise ValueError("name at least one URL of a reward service")
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{url!r} is no URL of a reward service; give http://HOST:PORT")
        self.all = [Endpoint(url.rstrip("/")) for url in urls]
        self._choices = 0

    def choose(self, now: float) -> Endpoint | None:
        """The least busy that may be asked, by turns; None if all are to be left alone."""
        able = [each for each in self.all if each.opens <= now]
        if not able:
            return None
        best = min(able, key=lambda each: (each.outstanding, each.chosen))
        self._choices += 1
        best.chosen = self._choices
        return best

    def opening(self, now: float) -> float | None:
        """Seconds until one may be asked; None if that is up to the probes."""
        first = min(each.opens for each in self.all)
        return None if math.isinf(first) else max(0.0, first - now)
