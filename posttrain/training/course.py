"""How a run was carried out, and from which step on: what changes the rounding and nothing else.

It is saved and restored with the training state, so that a run which went on in another way says
so in its record.
"""

from collections.abc import Mapping
from typing import Any

Way = Mapping[str, int]


class Course:
    """The ways in which a run's steps were taken; `done` counts the steps."""

    def __init__(self, way: Way) -> None:
        self.done = 0
        self._way = dict(way)
        self._earlier: list[dict[str, int]] = []

    def facts(self) -> dict[str, Any]:
        """How its last steps were taken, and `earlier`, in another way, those up to `until`."""
        return {**self._way, "earlier": self._earlier}

    def state_dict(self) -> dict[str, Any]:
        """How it went so far."""
        return {"done": self.done, "way": self._way, "earlier": self._earlier}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on, in this run's own way, from where `state` was saved."""
        self.done, self._earlier = state["done"], list(state["earlier"])
        if state["way"] != self._way:
            self._earlier.append({**state["way"], "until": self.done})
