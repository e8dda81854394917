"""Finished groups on their way to the trainer."""

from collections import deque
from heapq import heappop, heappush

from posttrain.simulation.group import GONE, Group, State


class Line:
    """The first issued is first.

    `groups` are all that were ever issued, by number.
    """

    def __init__(self, groups: list[Group]) -> None:
        self._groups = groups
        self._numbers: list[int] = []
        self._oldest = self._slowest = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, group: Group) -> None:
        """A group is finished."""
        heappush(self._numbers, group.number)

    def first(self) -> Group:
        """The one whose turn it is."""
        return self._groups[self._numbers[0]]

    def pop(self, to: State) -> Group:
        """Take that one out, to be trained on or dropped."""
        group = self._groups[heappop(self._numbers)]
        group.move(State.FINISHED, to)
        return group

    def before(self, version: int) -> list[Group]:
        """Drop all that were issued under earlier weights than `version`."""
        dropped: list[Group] = []
        while len(self) and self.first().issued < version:
            dropped.append(self.pop(State.DROPPED))
        return dropped

    def oldest(self) -> int:
        """Number of the first group that is neither taken nor gone."""
        while self._groups[self._oldest].state in _PASSED:
            self._oldest += 1
        return self._oldest

    def slowest(self) -> Group | None:
        """The first group that is not finished yet."""
        for number in range(self._slowest, len(self._groups)):
            if self._groups[number].state is State.QUEUED:
                self._slowest = number
                return self._groups[number]
        self._slowest = len(self._groups)
        return None


_PASSED = {State.TAKEN, *GONE}


class Arrivals(Line):
    """Finished groups in the order in which they finished."""

    def __init__(self, groups: list[Group]) -> None:
        super().__init__(groups)
        self._queue: deque[Group] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, group: Group) -> None:
        """A group is finished."""
        self._queue.append(group)

    def first(self) -> Group:
        """The one whose turn it is."""
        return self._queue[0]

    def pop(self, to: State) -> Group:
        """Take that one out."""
        group = self._queue.popleft()
        group.move(State.FINISHED, to)
        return group
