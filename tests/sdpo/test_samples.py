from typing import Any

import pytest

from posttrain.data.chat import ChatFormat
from posttrain.judging.opinions import Opinion
from posttrain.sdpo import samples
from posttrain.sdpo.config import RepromptConfig
from posttrain.sdpo.samples import Sample
from tests.evaluation.tiny_model import chat_format

PROMPT = {
    "messages": [{"role": "user", "content": "Where does Mia live?"}], "tools": [],
    "deliberation": False,
}  # fmt: skip
FLAGS: dict[str, Any] = {
    "length": 60, "template": "{prompt}{demonstration}{feedback}",
    "demonstration_template": " {demonstration}", "feedback_template": " {feedback}",
}  # fmt: skip
GOOD, BAD, FAULT = Opinion(1.0), Opinion(0.0, "Be kind.", "kind"), Opinion(None, fault="down")


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return chat_format()


def found(chat: ChatFormat, *opinions: Opinion, group: int = 1, **flags: Any) -> list[Sample]:
    response = [*chat.encode("In Bern."), chat.control["<|assistant_end|>"]]
    drawn = [0] * (len(opinions) // group)
    return samples.samples(
        chat, {0: PROMPT}, drawn, group, [response] * len(opinions), opinions,
        RepromptConfig(**{**FLAGS, **flags}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("opinion", "flags", "outcome"),
    [
        (BAD, {}, "taught"),
        (GOOD, {}, "content"),
        (FAULT, {}, "unjudged"),
        (Opinion(0.0, " "), {}, "silent"),
        (BAD, {"feedback": "never", "demonstration": "any"}, "alone"),
        (BAD, {"length": 8}, "overlong"),
        (Opinion(0.0, "Say <|assistant_end|>."), {}, "unrenderable"),
    ],
)
def test_what_becomes_of_a_response(
    chat: ChatFormat, opinion: Opinion, flags: dict[str, Any], outcome: str
) -> None:
    assert [each.outcome for each in found(chat, opinion, **flags)] == [outcome]


def test_a_response_without_a_token_of_its_own_is_left_out(chat: ChatFormat) -> None:
    output = [chat.control["<|tool_output_start|>"], chat.control["<|tool_output_end|>"]]
    [sample] = samples.samples(chat, {0: PROMPT}, [0], 1, [output], [BAD], RepromptConfig(**FLAGS))
    assert sample.outcome == "wordless"


def test_a_success_of_the_group_is_shown_to_its_others(chat: ChatFormat) -> None:
    flags = {"demonstration": "others", "feedback": "without_demonstration"}
    first, second, third, fourth = found(chat, BAD, GOOD, BAD, FAULT, group=2, **flags)
    assert (first.outcome, first.told) == ("taught", "Where does Mia live? In Bern.")
    assert first.demonstrated
    assert second.outcome == "content", "a lone success has nothing to learn"
    assert (third.outcome, third.told) == ("taught", "Where does Mia live? Be kind.")
    assert fourth.outcome == "unjudged"


def test_both_sides_of_a_span_have_the_same_targets(chat: ChatFormat) -> None:
    [sample] = found(chat, BAD)
    span = samples.span(chat, PROMPT, sample)
    ids = [
        [token for token, own in zip(side.ids, side.mask, strict=True) if own]
        for side in (span.student, span.teacher)
    ]
    assert ids == [sample.response] * 2
    assert span.targets == len(sample.response)
    text = chat.tokenizer.decode(span.teacher.ids)
    assert "Where does Mia live? Be kind." in text


def test_tool_output_is_read_by_both_and_trained_by_none(chat: ChatFormat) -> None:
    control = chat.control
    output = [control["<|tool_output_start|>"], 300, control["<|tool_output_end|>"]]
    response = [301, *output, 302]
    [sample] = samples.samples(
        chat, {0: PROMPT}, [0], 1, [response], [BAD], RepromptConfig(**FLAGS)
    )
    span = samples.span(chat, PROMPT, sample)
    for side in (span.student, span.teacher):
        assert side.ids[-5:] == response
        assert side.mask[-5:] == [1, 0, 0, 0, 1]


def test_samples_survive_json(chat: ChatFormat) -> None:
    for sample in found(chat, BAD, GOOD, FAULT):
        assert Sample.from_json(sample.as_json()) == sample


def test_figures_are_shares_of_all_samples(chat: ChatFormat) -> None:
    config = RepromptConfig(**FLAGS)
    figures = samples.figures(found(chat, BAD, GOOD, BAD, FAULT, group=2), 2, config)
    assert figures["score"] == pytest.approx(1 / 3)
    assert (figures["taught"], figures["content"], figures["unjudged"]) == (0.5, 0.25, 0.25)
    assert (figures["success_samples"], figures["success_groups"]) == (0.25, 0.5)
    assert figures["article.kind"] == 2


def test_more_faults_than_allowed_end_the_run(chat: ChatFormat) -> None:
    mixed = found(chat, BAD, GOOD, FAULT, FAULT)
    samples.check(mixed, 0.5, step=7)
    with pytest.raises(RuntimeError, match=r"step 7: 2 of 4 .* \(2 unjudged\).*The judge: down"):
        samples.check(mixed, 0.49, step=7)


def test_nothing_to_correct_is_no_fault(chat: ChatFormat) -> None:
    samples.check(found(chat, GOOD, GOOD), 0.0, step=1)
