"""A prompt and its responses, from issue to the end of its life, which it has once.

QUEUED -> FINISHED -> TAKEN -> TRAINED
   '---------'-> FILTERED (equal rewards) or DROPPED (too old)
"""

from enum import Enum


class State(Enum):
    """Where a group is; the last three are final."""

    QUEUED = "queued"
    FINISHED = "finished"
    TAKEN = "taken"
    TRAINED = "trained"
    FILTERED = "filtered"
    DROPPED = "dropped"


GONE = frozenset({State.TRAINED, State.FILTERED, State.DROPPED})
"""The final states."""


class Response:
    """One generation of `tokens`, scored in `latency` seconds; `started` is a weight version."""

    __slots__ = ("group", "latency", "started", "tokens")

    def __init__(self, group: "Group", tokens: float, latency: float) -> None:
        self.group, self.tokens, self.latency = group, tokens, latency
        self.started = -1


class Group:
    """Prompt `number` (they count in order of issue), issued at weight version `issued`.

    `left` responses are not scored yet; `flat` says that all rewards will be equal; `trained` is
    the version of the weights that were trained on it.
    """

    __slots__ = ("flat", "issued", "left", "number", "responses", "state", "trained")

    def __init__(self, number: int, issued: int, flat: bool) -> None:
        self.number, self.issued, self.flat = number, issued, flat
        self.state = State.QUEUED
        self.responses: list[Response] = []
        self.left = 0
        self.trained = -1

    def move(self, before: State, after: State) -> None:
        """From one state to the next; AssertionError if it is not in `before`."""
        assert self.state is before, f"group {self.number} is {self.state}, not {before}"
        self.state = after
