"""The teacher's prompt: the conversation with what there is to tell in its last message.

Pure: a function of the prompt's row, the responses of its group and the flags (facts.md 1.4).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from posttrain.data.chat import ChatFormat, Conversation
from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import prompt_text
from posttrain.sdpo.config import SLOT, RepromptConfig


def demonstrator(index: int, scores: Sequence[float | None], config: RepromptConfig) -> int | None:
    """Which response of a group, with these scores, is shown for response `index`; the first."""
    if config.demonstration == "never":
        return None
    for other, score in enumerate(scores):
        itself = other == index and config.demonstration == "others"
        if score is not None and score >= config.success and not itself:
            return other
    return None


def demonstrated(turn: AssistantTurn, *, thinking: bool) -> str:
    """What is shown of a response that was parsed by id: thoughts if asked for, calls, text."""
    calls = [{call.name: call.arguments} for call in turn.tool_calls]
    parts = [
        turn.thoughts if thinking else None,
        json.dumps(calls, ensure_ascii=False) if calls else None,
        turn.content,
    ]
    return "\n".join(part for part in parts if part)


def reprompt(
    row: Mapping[str, Any], feedback: str, demonstration: str, config: RepromptConfig
) -> Conversation | None:
    """The teacher's conversation; None if there is nothing to tell."""
    without = config.feedback == "without_demonstration" and demonstration
    if config.feedback == "never" or without:
        feedback = ""
    feedback, demonstration = feedback.strip(), demonstration.strip()
    if not (feedback or demonstration):
        return None
    blocks = {
        "prompt": prompt_text(row),
        "feedback": _filled(config.feedback_template, {"feedback": feedback}),
        "demonstration": _filled(config.demonstration_template, {"demonstration": demonstration}),
    }
    told = {"role": "user", "content": _filled(config.template, blocks)}
    return cast(Conversation, {**row, "messages": [*row["messages"][:-1], told]})


def _filled(template: str, texts: Mapping[str, str]) -> str:
    """`template` with `texts` in its slots, or nothing if there is no text; slots in texts stay."""
    if not any(texts.values()):
        return ""
    return SLOT.sub(lambda slot: texts[slot[1]], template)


def own_tokens(chat: ChatFormat, response: Sequence[int]) -> list[int]:
    """1 for each token of a response that is the model's own, 0 for what tools put out.

    By id; in a format without marks for that, all are the model's. The mask is the loss's alone:
    all of it is read by student and teacher alike.
    """
    opening, closing = (chat.control.get(f"<|tool_output_{end}|>") for end in ("start", "end"))
    mask, inside = [], False
    for token in response:
        inside = inside or token == opening
        mask.append(int(not inside))
        inside = inside and token != closing
    return mask
