"""Rules: how many groups may be under way, which finished ones are trained on, which thrown away.

P is prompts a step. A group is under way from issue until the weights trained on it are published,
or until it leaves untrained. What each rule promises of a group's age is proved in
docs/simulation.md.
"""

from abc import ABC, abstractmethod
from math import ceil
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from posttrain.simulation.distributions import Strict
from posttrain.simulation.group import Group, State
from posttrain.simulation.line import Arrivals, Line


class Rule(Strict, ABC):
    """What is asked of a rule. Unless it says otherwise it replaces what leaves at once, trains on
    the first issued first, and throws nothing away."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a table calls it."""

    @property
    def at_look(self) -> bool:
        """Whether groups that leave are replaced only when the trainer looks for a batch."""
        return False

    @abstractmethod
    def limit(self, prompts: int) -> int:
        """Most groups under way, for steps of `prompts`."""

    @abstractmethod
    def bound(self, prompts: int) -> int | None:
        """Versions a trained group may have aged since its issue; None if nothing bounds it."""

    def room(self, prompts: int, under_way: int, line: Line, left: int) -> int:
        """Groups to issue now that `left` have left in this step."""
        return self.limit(prompts) - under_way

    def line(self, groups: list[Group]) -> Line:
        """Where finished groups wait."""
        return Line(groups)

    def stale(self, line: Line, version: int) -> list[Group]:
        """Take out what is too old to be trained on."""
        return []

    @abstractmethod
    def take(self, line: Line, version: int, wanted: int) -> list[Group]:
        """Take out at most `wanted` groups to train on; the trainer keeps them for its batch."""


class SynchronousRule(Rule):
    """verl's synchronous trainer: a batch is issued, and trained on when nothing is unfinished.

    For each group of equal rewards two are issued, never more than a batch at a time; what is left
    over is thrown away. Verification is `streamed`, or begins when all is generated.
    """

    streamed: bool

    @property
    def name(self) -> str:
        return "synchronous, streamed" if self.streamed else "synchronous"

    @property
    def at_look(self) -> bool:
        return True

    def limit(self, prompts: int) -> int:
        return prompts

    def bound(self, prompts: int) -> int | None:
        return 0

    def room(self, prompts: int, under_way: int, line: Line, left: int) -> int:
        if len(line) >= prompts:
            return 0
        unfinished = under_way - len(line)
        return min(prompts + left - under_way, prompts - unfinished)

    def stale(self, line: Line, version: int) -> list[Group]:
        return line.before(version)

    def take(self, line: Line, version: int, wanted: int) -> list[Group]:
        if len(line) < wanted or line.slowest() is not None:
            return []
        return [line.pop(State.TAKEN) for _ in range(wanted)]


class CountRule(Rule):
    """Bounds what is issued: `staleness` steps' worth, a fraction if you like, beyond one step's.

    First finished, first trained; nothing is dropped. It is the rule of verl's fully asynchronous
    trainer and of AReaL, and bounds no group's age.
    """

    rule: Literal["count"]
    staleness: NonNegativeFloat

    @property
    def name(self) -> str:
        return f"count {self.staleness:g}"

    def limit(self, prompts: int) -> int:
        return int(prompts * (1 + self.staleness))

    def bound(self, prompts: int) -> int | None:
        return 0 if self.limit(prompts) == prompts else None

    def line(self, groups: list[Group]) -> Line:
        return Arrivals(groups)

    def take(self, line: Line, version: int, wanted: int) -> list[Group]:
        return [line.pop(State.TAKEN) for _ in range(min(wanted, len(line)))]


class WindowedRule(Rule):
    """First issued, first trained, but for a window: a group is taken when its number is less than
    `window_prompts` above that of the oldest one not taken. Drops nothing, and bounds age."""

    rule: Literal["windowed"]
    staleness: NonNegativeInt
    window_prompts: PositiveInt

    @property
    def name(self) -> str:
        return f"windowed {self.staleness} ({self.window_prompts})"

    def limit(self, prompts: int) -> int:
        return prompts * (1 + self.staleness)

    def bound(self, prompts: int) -> int | None:
        return self.staleness and self.staleness + ceil((self.window_prompts - 1) / prompts)

    def take(self, line: Line, version: int, wanted: int) -> list[Group]:
        taken: list[Group] = []
        while len(taken) < wanted and len(line):
            if line.first().number >= line.oldest() + self.window_prompts:
                break
            taken.append(line.pop(State.TAKEN))
        return taken


class VerlRule(Rule):
    """verl's v1 separate_async trainer: `staleness` warm-up batches and a threshold one above it.

    A batch is taken whole, the first issued first, and then only are leavers replaced. What was
    issued more than `staleness` versions ago is dropped; with `wait` nothing is, but the trainer
    stands still while a group that is not finished is `staleness` versions old.
    """

    rule: Literal["verl-drop", "verl-wait"]
    staleness: NonNegativeInt

    @property
    def name(self) -> str:
        return f"{self.rule} {self.staleness}"

    @property
    def at_look(self) -> bool:
        return True

    def limit(self, prompts: int) -> int:
        return prompts * (1 + self.staleness)

    def bound(self, prompts: int) -> int | None:
        # Finished groups may pile up behind one that is waited for.
        return self.staleness if self._drops else max(self.staleness, 2 * self.staleness - 1)

    def stale(self, line: Line, version: int) -> list[Group]:
        return line.before(version - self.staleness) if self._drops else []

    def take(self, line: Line, version: int, wanted: int) -> list[Group]:
        if len(line) < wanted or (not self._drops and self._overdue(line, version)):
            return []
        return [line.pop(State.TAKEN) for _ in range(wanted)]

    @property
    def _drops(self) -> bool:
        return self.rule == "verl-drop"

    def _overdue(self, line: Line, version: int) -> bool:
        slowest = line.slowest()
        return slowest is not None and version - slowest.issued >= self.staleness


AnyRule = Annotated[CountRule | WindowedRule | VerlRule, Field(discriminator="rule")]
