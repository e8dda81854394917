"""Reading raw turns: what counts as a call, and that nothing makes it raise."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.turn import Call, _read_step_by_step, read_turn

OPEN, CLOSE = "<|tools_prefix|>", "<|tools_suffix|>"
THINK, THOUGHT, END = "<|inner_prefix|>", "<|inner_suffix|>", "<|assistant_end|>"
PIECES = [
    OPEN,
    CLOSE,
    THINK,
    THOUGHT,
    END,
    "<think>",
    "</think>",
    "<|tool_output_start|>",
    "<|tool_output_end|>",
    "[",
    "]",
    '{"a": {}}',
    '"',
    "x",
]

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="<"), min_size=1)


def block(*calls: tuple[str, object]) -> str:
    return f"{OPEN}{json.dumps([{name: arguments} for name, arguments in calls])}{CLOSE}"


def test_calls_and_text_outside_the_deliberation() -> None:
    draft = block(("a", {"x": 1}))
    turn = read_turn(f"{THINK}{draft}{THOUGHT}Hello {block(('b', [2]), ('c', None))}there{END}no")
    assert turn.calls == [Call("b", [2]), Call("c", None)]
    assert turn.text == "Hello there"
    assert turn.malformed is None


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "[1]", '[{"a": {}, "b": {}}]', "[{}]", '[{"a": NaN}]', '[{"a": {}}',
     "[" * 9999, '[{"a": {"x": 1, "x": 2}}]', "9" * 5000],
)  # fmt: skip
def test_a_block_that_is_no_list_of_calls_is_malformed(content: str) -> None:
    turn = read_turn(f"{OPEN}{content}{CLOSE}")
    assert turn.malformed
    assert turn.calls == []


def test_an_open_block_and_a_stray_end_are_malformed() -> None:
    assert read_turn(f'{OPEN}[{{"a": 1}}]').malformed
    assert read_turn(f"hello {CLOSE}").malformed


def test_an_open_deliberation_hides_the_rest() -> None:
    turn = read_turn(f"yes {THINK}{block(('a', 1))} no")
    assert (turn.text, turn.calls) == ("yes ", [])


def test_the_prompt_may_have_opened_the_deliberation() -> None:
    turn = read_turn(f"hm {block(('a', 1))} {OPEN}{CLOSE} </think>so {block(('b', 2))}")
    assert (turn.text, turn.calls, turn.malformed) == ("so ", [Call("b", 2)], None)


@pytest.mark.parametrize("output", ['["done"]', "[plain [text], more]", "  [1, 2]", "[]"])
def test_tool_output_is_not_the_models(output: str) -> None:
    turn = read_turn(f"{block(('a', 1))}{output} and {block(('b', 2))}")
    assert (turn.text, turn.calls) == (" and ", [Call("a", 1), Call("b", 2)])


def test_without_an_environment_the_brackets_are_the_models() -> None:
    turn = read_turn(f"{block(('a', 1))}[hm] and {block(('b', 2))}[ok]", own_output=True)
    assert (turn.text, turn.calls) == ("[hm] and [ok]", [Call("a", 1), Call("b", 2)])
    quoted = read_turn(f"{block(('a', 1))}[{block(('b', 2))}]", own_output=True)
    assert (quoted.text, quoted.calls) == ("[]", [Call("a", 1), Call("b", 2)])


def test_marked_tool_output_is_not_the_models() -> None:
    """As version 1.5 of the format has it; without an environment the model wrote it."""
    output = f'<|tool_output_start|>"a {OPEN}", [1]<|tool_output_end|>'
    response = f"{block(('a', 1))}{output}hm {block(('b', 2))}"
    turn = read_turn(response)
    assert (turn.text, turn.malformed) == ("hm ", None)
    assert turn.calls == [Call("a", 1), Call("b", 2)]
    said = read_turn(
        f"{block(('a', 1))}<|tool_output_start|>[1]<|tool_output_end|>hm", own_output=True
    )
    assert said.text == "[1]hm"


@pytest.mark.parametrize("marker", ["<|tool_output_start|>", "<|tool_output_end|>"])
def test_output_with_one_marker_hides_no_call(marker: str) -> None:
    assert read_turn(f"{marker}{block(('a', 1))}").malformed


def test_a_call_quoted_in_tool_output_does_not_count() -> None:
    quoted = json.dumps([block(("b", 2))])
    assert read_turn(f"{block(('a', 1))}{quoted}").calls == [Call("a", 1)]
    broken = f"[said {block(('b', 2))}] {block(('c', 3))}"
    assert read_turn(f"{block(('a', 1))}{broken}").calls == [Call("a", 1)]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_can_be_read(text: str) -> None:
    turn = read_turn(text)
    assert len(turn.text) <= len(text)
    assert not any(piece in turn.text for piece in PIECES[:9])


@given(st.text(alphabet="ab <|>[]{}\"'\n"), st.lists(st.tuples(NAMES, st.integers())))
def test_plain_text_and_its_calls_come_back(text: str, calls: list[tuple[str, int]]) -> None:
    turn = read_turn(text + (block(*calls) if calls else ""))
    assert turn.text == text
    assert turn.calls == [Call(*call) for call in calls]


@given(st.lists(st.sampled_from([
    "<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>",
    "<|assistant_end|>", "<think>", '[{"a": 1}]', '[{"a": 1, "a": 2}]', "[", "text", "<", "",
]), max_size=9))  # fmt: skip
def test_a_usual_turn_is_read_as_any_other(parts: list[str]) -> None:
    response = "".join(parts)
    assert read_turn(response) == _read_step_by_step(response)


def test_half_a_surrogate_pair_is_malformed() -> None:
    turn = read_turn(OPEN + '[{"display_answers": {"answers": ["\\ud800"]}}]' + CLOSE + END)
    assert turn.calls == []
    assert turn.malformed is not None


@given(st.text(alphabet='ab "\\[]{}:,\n<', max_size=12), st.sampled_from([":", ": ", " : "]))
def test_a_usual_call_is_read_as_any_other(text: str, colon: str) -> None:
    for content in (text, json.dumps(text)[1:-1]):
        call = f'[{{"display_answers"{colon}{{"answers"{colon}["{content}"]}}}}]'
        response = f"said{OPEN}{call}{CLOSE}"
        assert read_turn(response) == _read_step_by_step(response)
