"""The rollout engine as a pool of slots in which all live sequences advance in step.

Continuous batching makes one token for each live sequence at a time, and takes longer for it the
more there are. So one clock that counts tokens serves them all: a sequence that starts at V with n
tokens to go ends at V + n, whatever happens to the speed in between, and an event costs O(log n).
Replicas share the load evenly.
"""

from bisect import bisect_left
from collections import deque
from heapq import heappop, heappush
from typing import Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from posttrain.simulation.distributions import INFINITE, Strict
from posttrain.simulation.group import Response


class DecodeConfig(Strict):
    """Seconds one replica takes for one token of each of its live sequences.

    Either `seconds` + `seconds_per_sequence` x live, or a measured table `seconds_by_live`
    (live sequences -> seconds), linear between its points and level outside of them.
    """

    seconds: PositiveFloat | None = None
    seconds_per_sequence: NonNegativeFloat = 0.0
    seconds_by_live: dict[PositiveInt, PositiveFloat] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.seconds is None) == (self.seconds_by_live is None):
            raise ValueError("give either seconds or seconds_by_live")
        return self

    def at(self, live: float) -> float:
        """Seconds with `live` sequences on the replica (at least one)."""
        live = max(live, 1.0)
        if self.seconds is not None:
            return self.seconds + self.seconds_per_sequence * live
        assert self.seconds_by_live is not None
        return _between(sorted(self.seconds_by_live.items()), live)

    def slowed(self, factor: float) -> "DecodeConfig":
        """The same with every time multiplied."""
        table = self.seconds_by_live
        return DecodeConfig(
            seconds=self.seconds and self.seconds * factor,
            seconds_per_sequence=self.seconds_per_sequence * factor,
            seconds_by_live=table and {live: each * factor for live, each in table.items()},
        )


def _between(points: list[tuple[int, float]], live: float) -> float:
    right = bisect_left(points, (live,))
    if right in (0, len(points)):
        return points[min(right, len(points) - 1)][1]
    (low, before), (high, after) = points[right - 1], points[right]
    return before + (after - before) * (live - low) / (high - low)


class Pool:
    """`replicas` engines of `slots` sequences each; `due` is when the next sequence ends.

    A slot is free, decoding, or held by a finished response that the reward service has no room
    for yet. While `paused` no token is made; while `closed` nothing is started.
    """

    def __init__(self, decode: DecodeConfig, replicas: int, slots: int) -> None:
        self.free = replicas * slots
        self._seconds = [decode.at(live / replicas) for live in range(self.free + 1)]
        self.peak = max(live / self._seconds[live] for live in range(1, self.free + 1))
        self.waiting: deque[Response] = deque()
        self.closed = False
        self.decoded = 0.0
        self.due = INFINITE
        self._live: list[tuple[float, int, Response]] = []
        self._clock = self._time = 0.0
        self._paused = False
        self._serial = 0

    @property
    def live(self) -> int:
        """Sequences being decoded."""
        return len(self._live)

    def start(self, now: float, version: int) -> None:
        """Give free slots to what waits, in its order; it is of weight `version` from now on."""
        if not self.waiting or not self.free or self.closed:
            return
        self._advance(now)
        while self.waiting and self.free:
            response = self.waiting.popleft()
            response.started = version
            self._serial += 1
            heappush(self._live, (self._clock + response.tokens, self._serial, response))
            self.free -= 1
        self._plan()

    def finish(self, now: float) -> Response:
        """Take out the sequence that is due; its slot stays held until `release`."""
        self._advance(now)
        end, _, response = heappop(self._live)
        self._clock = end  # Exactly, so that rounding never adds up.
        self._plan()
        return response

    def release(self) -> None:
        """Free the slot of a response that has left."""
        self.free += 1

    def pause(self, now: float) -> None:
        """Make no more tokens; sequences keep what they have."""
        self._advance(now)
        self.closed = self._paused = True
        self._plan()

    def resume(self, now: float) -> None:
        """Go on, and start sequences again."""
        self._advance(now)
        self.closed = self._paused = False
        self._plan()

    def _advance(self, now: float) -> None:
        if self._live and not self._paused:
            tokens = (now - self._time) / self._seconds[len(self._live)]
            self._clock += tokens
            self.decoded += tokens * len(self._live)
        self._time = now

    def _plan(self) -> None:
        if self._paused or not self._live:
            self.due = INFINITE
        else:
            left = max(self._live[0][0] - self._clock, 0.0)
            self.due = self._time + left * self._seconds[len(self._live)]
