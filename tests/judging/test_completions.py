import json

from posttrain.data.turn import AssistantTurn, ToolCall, answers
from posttrain.judging import completions


def test_a_turn_read_back_still_calls_its_tools() -> None:
    """Calls were read back by their fields' names, so that every answer counted as none."""
    said = AssistantTurn(
        thoughts="a02", tool_calls=(ToolCall("display_answers", {"answers": ["02"]}),),
        complete=True,
    )  # fmt: skip
    line = json.loads(json.dumps(completions.line(0, 0, {}, [1], said)))
    assert completions.turn(line) == said
    assert answers(completions.turn(line)) == ["02"]
