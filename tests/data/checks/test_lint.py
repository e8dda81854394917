"""Lint: every fault planted is found, named by row and field, and sound rows have none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, processors
from transformers import PreTrainedTokenizerFast

from posttrain.data import tiny
from posttrain.data.apertus import ApertusFormat
from posttrain.data.chat import ChatFormat, Conversation, Rendered
from posttrain.data.checks import lint
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.masks import bos_findings, mask_findings
from posttrain.data.checks.report import Finding, Outcome
from posttrain.data.checks.rows import Fault, Place, Row
from posttrain.data.checks.shape import problems
from tests.data.checks.samples import chat, checked, dataset, dialogue

SOUND = [*tiny.dialogues(1, 20), *tiny.long_documents(1, 2, (256,)), *tiny.corpus(1, 20)]
TOOL = {"name": "f", "description": "d"}
PLACE = Place("talk", "talk.jsonl", 1)


def found(row: dict[str, Any], format: ChatFormat | None = None) -> list[tuple[str, str]]:
    """Reason and field of all that is found in a row."""
    _, findings = lint.Linter(format or chat()).linted(Row(PLACE, row))
    return [(finding.reason, finding.field) for finding in findings]


def linted(*rows: dict[str, Any], format: ChatFormat) -> Outcome:
    return lint.run(Inputs([dataset(rows)], chat=format), lint.Parameters())


def rebuilt(**parts: Any) -> ChatFormat:
    """The format over a copy of the tokenizer with other parts."""
    backend = Tokenizer.from_str(chat().tokenizer.backend_tokenizer.to_str())
    for name, part in parts.items():
        setattr(backend, name, part)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    return ChatFormat.from_tokenizer(tokenizer)


def test_sound_rows_have_no_findings_and_are_counted() -> None:
    outcome = checked("lint", dataset(SOUND))
    outcome.require()
    assert not outcome.report.reasons
    rendered = [lint.render(chat(), row) for row in SOUND]
    tokens = sum(len(each.ids) for each in rendered)
    targets = sum(sum(each.mask) for each in rendered)
    assert outcome.report.figures == {
        "tokens.talk": tokens, "targets.talk": targets, "target_share.talk": targets / tokens,
    }  # fmt: skip


def test_a_broken_row_is_a_finding_and_not_the_end() -> None:
    rows: list[Any] = [
        "is not JSON at column 8",
        dialogue("a", "b"),
        {"messages": [{"role": "teacher"}]},
    ]
    outcome = checked("lint", dataset(rows))
    assert outcome.report.rows == 3
    assert [(e.row, e.field, e.reason) for e in outcome.report.examples] == [
        (1, "", "broken"), (3, "messages[0].role", "broken"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"lint: 2 rows with broken, the first talk.jsonl: row 1"):
        outcome.require()


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"messages": None}, "messages", "must be a list, is missing"),
        ({"messages": []}, "messages", "is empty"),
        ({"messages": ["hi"]}, "messages[0]", "must be an object, is 'hi'"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "must be text, is missing"),
        ({"messages": [{"content": "a"}]}, "messages[0].role", "unknown role missing"),
        ({"deliberation": "yes"}, "deliberation", "must be true or false, is 'yes'"),
        ({"text": 7}, "text", "must be text, is 7"),
        ({"tools": {}}, "tools", "must be a list, is {}"),
        ({"tools": [{**TOOL, "parameters": 7}]}, "tools[0].parameters", "must be an object, is 7"),
        (
            {"tools": [{**TOOL, "parameters": {"x": "string"}}]},
            "tools[0].parameters",
            "must be a JSON schema",
        ),
        (
            {"tools": [{"function": {**TOOL, "parameters": {"properties": {"x": "string"}}}}]},
            "tools[0].function.parameters.properties.x",
            "must be a JSON schema, is 'string'",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}]},
            "messages[0].tool_calls[0].arguments",
            "is not JSON",
        ),
        (
            {"messages": [{"role": "assistant", "content": {"blocks": [{"type": "image"}]}}]},
            "messages[0].content.blocks[0].type",
            "unknown type 'image'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]},
            "messages[0].content[0].text",
            "must be text, is 7",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]},
            "messages[0].tool_calls[0].arguments",
            "is missing",
        ),
        (
            {"messages": [{"role": "assistant", "tool_outputs": ["a", 7]}]},
            "messages[0].tool_outputs[1]",
            "must be text, is 7",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "text"}]}]},
            "messages[0].content",
            "must be text, is [{",
        ),
    ],
)
def test_a_row_of_the_wrong_shape_names_its_field(
    change: dict[str, Any], field: str, told: str
) -> None:
    [(where, problem)] = problems({**dialogue("a", "b"), **change})
    assert where == field
    assert problem.startswith(told)


def test_rows_of_no_known_shape_are_broken() -> None:
    assert list(problems({"question": "?"})) == [
        ("", "has no messages, prompt, text or tokens; its fields are question")
    ]
    assert list(problems({"prompt": "a"})) == [("continuation", "must be text, is missing")]


def test_a_message_out_of_place_is_broken() -> None:
    row = dialogue("a", "b")
    row["messages"].append({"role": "system", "content": "c"})
    assert found(row) == [("broken", "")]


@pytest.mark.parametrize("marker", ["<|user_end|>", "<s>", "<|inner_prefix|>", "<pad>"])
def test_text_that_becomes_control_tokens_is_found(marker: str) -> None:
    row = dialogue("a", "b")
    row["messages"].insert(0, {"role": "system", "content": f"so {marker}"})
    row["tools"] = [{**tiny.ANSWER_TOOL, "description": f"Shows. {marker}"}]
    reasons = found(row)
    assert ("control_in_text", "messages[0].content") in reasons
    assert ("control_in_text", "tools[0].description") in reasons


@pytest.mark.parametrize("marker", ["<think>", "</think>", "<|inner_suffix|>", "<thinking>"])
def test_both_surface_forms_of_thinking_are_found(marker: str) -> None:
    reasons = found(dialogue("a", f"{marker}hm"))
    assert ("thinking_in_text", "messages[1].content") in reasons
    assert ("control_in_text" in dict(reasons)) == marker.startswith("<|")


def test_a_row_without_targets_is_found() -> None:
    row = dialogue("a", "b")
    row["messages"].pop()
    assert found(row) == [("no_target", "tokens")]


def test_text_that_the_tokenizer_changes_is_found() -> None:
    format = rebuilt(normalizer=normalizers.Replace("<answer>", ""))
    row = dialogue("a", "so <answer>4")
    assert found(row, format) == [("altered_text", "messages[1].content")]
    assert found(row) == []


def test_a_tokenizer_that_adds_bos_itself_is_refused() -> None:
    bos = chat().control["<s>"]
    format = rebuilt(
        post_processor=processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
    )
    with pytest.raises(ValueError, match="doubles <s> wherever text is tokenised"):
        linted(dialogue("a", "b"), format=format).require()


class Doubled(ApertusFormat):
    """Writes `<s>` twice."""

    def render(self, row: Conversation, **how: Any) -> Rendered:
        once = super().render(row, **how)
        return Rendered([once.ids[0], *once.ids], [0, *once.mask])


class Hurried(ApertusFormat):
    """Tells the length of the conversation ahead, as no prompt can."""

    def render(self, row: Conversation, **how: Any) -> Rendered:
        counted = super().render(row, **how)
        ahead = self.encode(str(len(row["messages"])))
        return Rendered([*counted.ids[:2], *ahead, *counted.ids[2:]], [*ahead, *counted.mask])


class Forgetful(ApertusFormat):
    """Masks all answers but the last, so that an answer's mask depends on what follows."""

    def render(self, row: Conversation, **how: Any) -> Rendered:
        whole = super().render(row, **how)
        ends = [i for i, t in enumerate(whole.ids) if t == self.control["<|assistant_end|>"]]
        last = ends[-2] + 1 if len(ends) > 1 else 0
        return Rendered(whole.ids, [0] * last + whole.mask[last:])


def test_a_format_that_doubles_bos_is_found() -> None:
    format = Doubled(chat().tokenizer, chat().control)
    assert found(dialogue("a", "b"), format)[0] == ("double_bos", "tokens")


@pytest.mark.parametrize("kind", [Hurried, Forgetful])
def test_a_rendering_that_changes_as_it_goes_on_is_found(kind: type[ChatFormat]) -> None:
    row = dialogue("a", "b")
    row["messages"] += dialogue("c", "d")["messages"]
    reasons = found(row, kind(chat().tokenizer, chat().control))
    assert ("unstable_prefix", "messages[3]") in reasons
    assert found(row) == []


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([], "0 <s>, at []"),
        (["<|user_start|>", "<s>"], "1 <s>, at [1]"),
        (["<s>", "<|user_start|>", "<s>"], "2 <s>, at [0, 2]"),
    ],
)
def test_bos_belongs_first_and_once(ids: list[str], told: str) -> None:
    tokens = [chat().control[name] for name in ids]
    [finding] = bos_findings(chat(), Rendered(tokens, [0] * len(tokens)))
    assert finding.reason == "bos"
    assert told in finding.detail


def test_a_mask_that_starts_within_a_token_is_found() -> None:
    """Prompt and answer were tokenised apart, and a tokenizer would have joined them."""
    vocabulary = chat().tokenizer.get_vocab()
    word = max((f" {t[1:]}" for t in vocabulary if t[0] == "Ġ" and t[1:].isalpha()), key=len)
    row = {"prompt": f"Show{word[:2]}", "continuation": word[2:]}
    assert found(row) == [("split_token", "tokens")]
    assert found({"prompt": "Show", "continuation": word}) == []


def test_a_mask_that_starts_within_a_character_is_found() -> None:
    ids = chat().encode("so 🙂")
    assert len(ids) > 3
    mask = [0] * (len(ids) - 2) + [1, 1]
    assert [each.reason for each in mask_findings(chat(), Rendered(ids, mask))] == [
        "split_character"
    ]


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), st.data())
def test_a_mask_between_two_words_is_sound(text: str, data: st.DataObject) -> None:
    ids = chat().encode(text)
    at = data.draw(st.integers(0, len(ids)))
    left = chat().tokenizer.decode(ids[:at])
    findings = list(mask_findings(chat(), Rendered(ids, [0] * at + [1] * (len(ids) - at))))
    splits = [each for each in findings if each.reason.startswith("split")]
    assert bool(splits) == (0 < at < len(ids) and not text.startswith(left))


def test_mask_and_tokens_of_different_length_are_found() -> None:
    [finding] = mask_findings(chat(), Rendered([1, 2], [1]))
    assert finding == Finding("tokens", "mask_length", "1 mask values for 2 tokens")


def test_a_row_that_could_not_be_read_has_no_rendering() -> None:
    fault = Fault(PLACE, "text", "holds half of a surrogate pair")
    assert lint.Linter(chat()).linted(fault) == (
        None, [Finding("text", "broken", "holds half of a surrogate pair")],
    )  # fmt: skip
