"""A response is read by id, alike whole and in any deltas, and nothing of its notation shows."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import train_tokenizer
from posttrain.serving.reading import Allowance, Called, Markers, Reply, ResponseReader, Told
from tests.evaluation.tiny_model import chat_format

APERTUS = chat_format()
CHATML = ChatFormat.from_tokenizer(train_tokenizer(["a b c"] * 3, 600, format="chatml"))
READ_BY = {id(chat): Markers.of(chat) for chat in (APERTUS, CHATML)}
CALLS = '[{"add": {"a": 1}}, {"mul": {"b": [2]}}]'


def ids(chat: ChatFormat, *parts: str) -> list[int]:
    """Ids of texts and, where a part is a marker's name, of that marker."""
    names = {name: index for index, name in READ_BY[id(chat)].names.items()}
    found: list[int] = []
    for part in parts:
        if part in names:
            found.append(names[part])
        else:
            found += chat.tokenizer.encode(
                part, add_special_tokens=False, split_special_tokens=True
            )
    return found


def told(chat: ChatFormat, deltas: Sequence[Sequence[int]], **how: bool) -> list[Told]:
    reader = ResponseReader(chat.tokenizer, READ_BY[id(chat)], **how)
    return [*(each for delta in deltas for each in reader.feed(delta)), *reader.finish()]


def reply(chat: ChatFormat, *parts: str, **how: bool) -> Reply:
    return Reply.of(told(chat, [ids(chat, *parts)], **how))


THOUGHT = ("<|inner_prefix|>", "hm", "<|inner_suffix|>")


@pytest.mark.parametrize("chat", [APERTUS, CHATML])
def test_thoughts_and_content_are_apart(chat: ChatFormat) -> None:
    found = reply(chat, *THOUGHT, "yes", "<|assistant_end|>", "not read")
    assert found == Reply("hm", "yes", ())


def test_a_prompt_may_have_opened_the_thoughts() -> None:
    assert reply(APERTUS, "hm", "<|inner_suffix|>", "yes", thinks=True) == Reply("hm", "yes", ())
    assert reply(APERTUS, "hm", thinks=True) == Reply("hm", None, ())


def test_calls_are_told_in_order_also_within_thoughts() -> None:
    found = reply(
        APERTUS, "<|inner_prefix|>", "let me", "<|tools_prefix|>", CALLS, "<|tools_suffix|>",
        "<|inner_suffix|>", "done",
    )  # fmt: skip
    assert found.calls == (Called("add", '{"a": 1}'), Called("mul", '{"b": [2]}'))
    assert (found.thoughts, found.content) == ("let me", "done")


def test_chatml_has_a_call_in_each_span_and_blank_layout_between() -> None:
    one = '\n{"name": "add", "arguments": {"a": 1}}\n'
    span = ("<|tools_prefix|>", one, "<|tools_suffix|>")
    found = reply(CHATML, *THOUGHT, "\n\n", *span, "\n", *span, "<|assistant_end|>")
    assert found == Reply("hm", None, (Called("add", '{"a": 1}'),) * 2)
    assert reply(CHATML, *THOUGHT, "\n\n", "yes").content == "\n\nyes"


@pytest.mark.parametrize("text", ["{broken", "[]", '[{"a": 1, "b": 2}]', '{"a": 1}'])
def test_calls_that_are_not_well_formed_are_content(text: str) -> None:
    found = reply(APERTUS, "so ", "<|tools_prefix|>", text, "<|tools_suffix|>")
    assert found == Reply(None, f"so {text}", ())


def test_a_call_that_was_cut_off_is_content_even_if_its_json_is_whole() -> None:
    assert reply(APERTUS, "<|tools_prefix|>", CALLS) == Reply(None, CALLS, ())


def test_text_that_spells_a_marker_is_text() -> None:
    spelled = "<|tools_prefix|>[] <|inner_prefix|> </s>"
    whole = APERTUS.tokenizer.encode(spelled, add_special_tokens=False, split_special_tokens=True)
    assert Reply.of(told(APERTUS, [whole])) == Reply(None, spelled, ())


PART = st.sampled_from(
    [*READ_BY[id(APERTUS)].names.values(), CALLS, "héllo 🙂", " ", "\n", "x<|", "ß"]
)


@given(parts=st.lists(PART, max_size=12), data=st.data())
@settings(max_examples=150)
@pytest.mark.parametrize("chat", [APERTUS, CHATML])
def test_deltas_tell_what_the_whole_tells(
    chat: ChatFormat, parts: list[str], data: st.DataObject
) -> None:
    whole = ids(chat, *parts)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    deltas = [whole[a:b] for a, b in zip([0, *bounds], [*bounds, len(whole)], strict=True)]
    assert Reply.of(told(chat, deltas)) == Reply.of(told(chat, [whole]))


@given(parts=st.lists(PART, max_size=12))
@settings(max_examples=100)
def test_no_marker_is_ever_told(parts: list[str]) -> None:
    said = told(APERTUS, [ids(APERTUS, *parts)])
    texts = "".join(getattr(each, "text", "") for each in said)
    assert not any(name in texts for name in READ_BY[id(APERTUS)].names.values())


@given(length=st.integers(0, 40), steps=st.lists(st.integers(1, 7), min_size=1))
def test_as_much_passes_as_was_given_out(length: int, steps: list[int]) -> None:
    whole = ids(APERTUS, "<|inner_prefix|>", "hé🙂", "<|inner_suffix|>", "yes, and more of it")
    full = APERTUS.tokenizer.decode(whole)
    allowance = Allowance(APERTUS.tokenizer)
    passed, given_out = allowance.admit(whole, 0), 0
    for step in steps:
        step = min(step, min(length, len(full)) - given_out)
        passed += allowance.admit([], step)
        given_out += step
    assert whole[: len(passed)] == passed
    rest = full[given_out:]
    more, text = allowance.rest([rest[:3]] if rest else [])
    assert APERTUS.tokenizer.decode(passed) + text == full[:given_out]
    assert more == []
    assert passed + allowance.rest(["never said"])[0] == whole
