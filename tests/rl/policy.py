"""Stands for the rollout servers: says what it is told to say, stops where it is told to stop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.data.chat import ChatFormat


@dataclass
class Said:
    """What verl's client gives for one request."""

    token_ids: list[int]
    log_probs: list[float] | None
    extra_fields: dict[str, Any]


@dataclass
class Policy:
    """Says `script` turn by turn: each request goes on with the turn begun, up to what stops it.

    The weights change with each request: their version is its number.
    """

    script: Sequence[Sequence[int]]
    requests: list[tuple[list[int], dict[str, Any]]] = field(default_factory=list)
    said: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = [list(turn) for turn in self.script]

    async def generate(
        self, session: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> Said:
        """As verl's client."""
        return await self.go_on(prompt_ids, sampling_params)

    async def go_on(self, ids: list[int], parameters: dict[str, Any]) -> Said:
        """The next tokens."""
        self.requests.append((list(ids), dict(parameters)))
        turn = self._left[0] if self._left else []
        ids = []
        while turn and len(ids) < parameters["max_tokens"]:
            ids.append(turn.pop(0))
            if ids[-1] in parameters["stop_token_ids"]:
                break
        if not turn and self._left:
            self._left.pop(0)
        self.said += ids
        version = len(self.requests)
        fields = {"min_global_steps": version, "max_global_steps": version + 1}
        return Said(ids, [-0.25] * len(ids), fields)


def ids_of(chat: ChatFormat, *pieces: str) -> list[int]:
    """Control tokens by their names, anything else as text."""
    found: list[int] = []
    for piece in pieces:
        found += [chat.control[piece]] if piece in chat.control else chat.encode(piece)
    return found
