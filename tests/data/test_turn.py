"""What counts as an answer, and what breaks a turn."""

import pytest

from posttrain.data.turn import AssistantTurn, Span, ToolCall, answers, assemble, named_call

ANSWER = '[{"display_answers": {"answers": ["1"]}}]'
END = Span("<|assistant_end|>", "")


def called(text: str) -> list[Span]:
    return [Span("<|tools_prefix|>", ""), Span(None, text), Span("<|tools_suffix|>", "")]


@pytest.mark.parametrize(
    ("spans", "error"),
    [
        ([Span(None, "hello")], "does not end"),
        ([END, Span(None, "more")], "after the end"),
        ([Span("<|inner_prefix|>", ""), END], "<|inner_prefix|> is not closed"),
        ([Span("<|user_start|>", ""), END], "<|user_start|> out of place"),
        ([Span("<|tools_suffix|>", ""), END], "<|tools_suffix|> out of place"),
        ([Span("<|inner_prefix|>", ""), *called('[{"f": {}}]'), END], "<|inner_prefix|> is not"),
        ([Span("<|inner_prefix|>", ""), *called(ANSWER)], "display_answers within thinking"),
        (called(ANSWER), "does not end"),
        ([*called('[{"f": {}}]'), *called('[{"f": {}}]'), END], "again"),
        ([*called("not json"), END], "tool calls"),
        ([*called("[]"), END], "not a JSON array of calls"),
        ([*called('[{"f": 1, "g": 2}]'), END], "one key"),
        ([*called("[" * 100_000), END], "tool calls"),
    ],
)
def test_broken_turns_say_where(spans: list[Span], error: str) -> None:
    turn = assemble(spans)
    assert turn.error is not None
    assert error in turn.error
    assert answers(turn) is None


def test_a_whole_turn() -> None:
    thought = [Span("<|inner_prefix|>", ""), Span(None, "hm"), Span("<|inner_suffix|>", "")]
    turn = assemble([*thought, *called('[{"f": {"x": 1}}]'), Span(None, "done"), END])
    assert turn == AssistantTurn("hm", (ToolCall("f", {"x": 1}),), "done", complete=True)


def test_calls_may_follow_words_and_wait_for_outputs() -> None:
    """The OpenAI API's messages are so: first what is said, then what is called."""
    turn = assemble([Span(None, "Let me see."), *called('[{"f": {}}, {"g": {}}]')])
    assert (turn.content, len(turn.tool_calls)) == ("Let me see.", 2)
    assert (turn.complete, turn.error) == (False, None)


def test_an_object_may_name_its_call() -> None:
    spans = [*called('{"name": "f", "arguments": {"x": 1}}'), Span(None, "and"), END]
    assert assemble(spans, named_call).tool_calls == (ToolCall("f", {"x": 1}),)
    twice = assemble([*spans[:3], *spans], named_call, one_each=True)
    assert len(twice.tool_calls) == 2
    for wrong in ('{"f": {}}', "[]", '{"name": 1, "arguments": {}}'):
        assert assemble([*called(wrong), END], named_call).error


@pytest.mark.parametrize(
    "arguments",
    [{"answers": []}, {"answers": "09"}, {"answers": [9.5]}, {"answers": ["09"], "sure": True}, []],
)
def test_malformed_arguments_answer_nothing(arguments: object) -> None:
    turn = AssistantTurn(tool_calls=(ToolCall("display_answers", arguments),), complete=True)
    assert answers(turn) is None


def test_only_one_call_of_the_answer_tool_answers() -> None:
    call = ToolCall("display_answers", {"answers": ["09", "10"]})
    other = ToolCall("run_code", {"source": "1"})
    assert answers(AssistantTurn(tool_calls=(other, call), complete=True)) == ["09", "10"]
    assert answers(AssistantTurn(tool_calls=(call, call), complete=True)) is None
    assert answers(AssistantTurn(tool_calls=(other,), complete=True)) is None


def test_half_a_surrogate_pair_breaks_a_call() -> None:
    """Such an answer could not be sent to a verifier, and voided those sent with it."""
    turn = assemble([*called('[{"display_answers": {"answers": ["\\ud800"]}}]'), END])
    assert turn.error is not None
    assert answers(turn) is None
