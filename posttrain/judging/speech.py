"""What a model said where no environment took part: all of it is its own."""

from collections.abc import Sequence

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import AssistantTurn

_MARKS = ("<|tool_output_start|>", "<|tool_output_end|>")


def said(chat: ChatFormat, ids: Sequence[int]) -> AssistantTurn:
    """The turn in a response's ids, with what it has as a tool's output among its content.

    No tool gave that: a judge that is not shown it would not judge it, and one that is shown it as
    a tool's would believe it.
    """
    marks = {chat.control.get(name) for name in _MARKS}
    return chat.parse([token for token in ids if token not in marks])
