"""Replies of a model to prompts: ids, the turn parsed by id, and the text a reader would see.

Always holds: a prompt that leaves no room for its reply in the model's context is an error, and
the same prompts, suite and seed give the same replies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import AssistantTurn
from posttrain.evaluation.generation import sample

Row = Mapping[str, Any]

_CALLS_END = "<|tools_suffix|>"


class Sampled(Protocol):
    """What of a suite says how replies are drawn."""

    @property
    def temperature(self) -> float:
        """0 takes the likeliest token."""

    @property
    def max_new_tokens(self) -> int:
        """Where a reply is cut."""


@dataclass(frozen=True)
class Reply:
    """`finished` tells that the model ended it, rather than the limit."""

    ids: Sequence[int]
    turn: AssistantTurn
    text: str
    finished: bool


def replies(
    model: PreTrainedModel, chat: ChatFormat, suite: Sampled, rows: Sequence[Row], *, seed: int,
    calls: bool = False,
) -> list[Reply]:  # fmt: skip
    """A reply to each of `rows`; with `calls` one also ends where its calls await their outputs.

    ValueError if a row and its reply do not fit into the model's context.
    """
    prompts = [chat.prompt(row).ids for row in rows]  # type: ignore[arg-type]
    longest = max(map(len, prompts), default=0) + suite.max_new_tokens
    if longest > (most := model.config.max_position_embeddings):
        raise ValueError(
            f"a prompt and its reply take {longest:,} tokens, the model's context has {most:,}; "
            "leave long prompts out, or lower max_new_tokens"
        )
    stops = [*chat.stop_ids, *([chat.control[_CALLS_END]] if _waits(chat, calls) else [])]
    sampled = sample(
        model, prompts, max_new_tokens=suite.max_new_tokens, temperature=suite.temperature,
        stop_ids=stops, seed=seed,
    )  # fmt: skip
    return [_reply(chat, ids, stops) for ids in sampled]


def _waits(chat: ChatFormat, calls: bool) -> bool:
    """Whether all calls of a step are in one span, after which the outputs come."""
    return calls and _CALLS_END in chat.control


def _reply(chat: ChatFormat, ids: list[int], stops: Sequence[int]) -> Reply:
    turn = chat.parse(ids)
    return Reply(ids, turn, turn.content or "", bool(ids) and ids[-1] in stops)
