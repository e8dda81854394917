"""The reward service: so many responses scored at a time, so many more waiting for it.

What it has no room for keeps its rollout slot: a full service slows generation down, it loses
nothing.
"""

from collections import deque
from heapq import heappop, heappush

from pydantic import NonNegativeInt, PositiveInt

from posttrain.simulation.distributions import INFINITE, Distribution, Strict
from posttrain.simulation.group import Response


class RewardConfig(Strict):
    """Each of `replicas` scores `at_once` responses, `latency_seconds` for one.

    Without `replicas` there are always enough. `queue` responses may wait; without it any number.
    """

    latency_seconds: Distribution = 0.0
    replicas: PositiveInt | None = None
    at_once: PositiveInt = 1
    queue: NonNegativeInt | None = None

    @property
    def capacity(self) -> float:
        """Responses scored at the same time at most."""
        return INFINITE if self.replicas is None else self.replicas * self.at_once


class Service:
    """Scores in order of arrival; `due` is when the next score is there."""

    def __init__(self, config: RewardConfig) -> None:
        self.due = INFINITE
        self._begun = 0.0
        self._capacity = config.capacity
        self._room = INFINITE if config.queue is None else config.queue
        self._scoring: list[tuple[float, int, Response]] = []
        self._queue: deque[Response] = deque()
        self._serial = 0

    def full(self) -> bool:
        """Whether it would turn a response away."""
        return len(self._scoring) >= self._capacity and len(self._queue) >= self._room

    def instant(self, response: Response) -> bool:
        """Whether it is scored at once, so that it need not be taken in."""
        return response.latency == 0 and self._capacity == INFINITE

    def submit(self, now: float, response: Response) -> None:
        """Take a response in, which must not be when it is full."""
        if len(self._scoring) < self._capacity:
            self._begin(now, response)
        else:
            self._queue.append(response)

    def finish(self) -> Response:
        """The response whose score is due; the next in the queue takes its place."""
        now, _, response = heappop(self._scoring)
        if self._queue:
            self._begin(now, self._queue.popleft())
        self.due = self._scoring[0][0] if self._scoring else INFINITE
        return response

    def busy(self, now: float) -> float:
        """Seconds of scoring done up to `now`, all replicas together."""
        return self._begun - sum(end - now for end, _, _ in self._scoring if end > now)

    def _begin(self, now: float, response: Response) -> None:
        self._serial += 1
        heappush(self._scoring, (now + response.latency, self._serial, response))
        self._begun += response.latency
        self.due = self._scoring[0][0]
