"""Probes: gold answers worked out again from the prompts, lengths, and rows drawn anew."""

import random
import re
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.longcontext.probes import LEAST, TASKS, Probes, TaskName, commonness, probes
from posttrain.data.longcontext.words import coined
from rewards.schema import Item
from rewards.verifiers.answer import verify
from tests.data.longcontext import samples
from tests.data.longcontext.samples import chat, said

ASKED = Probes(tokenizer="t", rows=2, lengths=(600, 2048))


def solved(task: str, prompt: str) -> list[str]:
    """The answers to a prompt, from its text alone."""
    text, _, question = prompt.rpartition("\n\n")
    if task == "section_order":
        days = {n: int(re.findall(r"Day (\d+)", part)[0]) for n, part in sections(prompt).items()}
        return ["-".join(str(number) for number in sorted(days, key=days.__getitem__))]
    if task in ("common_words", "frequent_words"):
        count = int(re.findall(r"\d+", question)[0])
        ranked = Counter(text.split()).most_common(count + 1)
        assert ranked[count - 1][1] > ranked[count][1]
        return [word for word, _ in ranked[:count]]
    name = re.findall(r"be of (\w+)\?", question)[0]
    return re.findall(rf"A number of {name} is (\d+)\.", text)


def sections(prompt: str) -> dict[int, str]:
    return samples.sections(prompt[: prompt.index("\n\nThe sections") + 2])


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**31))
def test_gold_is_what_the_text_says(seed: int) -> None:
    for row in probes(chat(), ASKED, seed):
        assert sorted(row["gold"]["all_of"]) == sorted(solved(row["task"], said(row, "user")[0]))


def test_the_verifier_takes_the_gold_answers_and_no_others() -> None:
    for row in probes(chat(), ASKED, 0):
        right = sorted(row["gold"]["all_of"])
        for answers, score in ((right, 1.0), ([*right[1:], "9-9"], 0.0), ([*right, "1"], 0.0)):
            item = Item(id="1", verifier=row["verifier"], answers=answers, gold=row["gold"])
            assert verify(item).score == score


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**31), st.integers(0, 400), st.sampled_from(get_args(TaskName)))
def test_every_amount_of_text_has_one_right_answer(seed: int, more: int, task: TaskName) -> None:
    for length in (600, 4096):
        probe = TASKS[task](random.Random(seed), LEAST[task] + more, length)
        assert sorted(probe.gold) == sorted(solved(task, probe.prompt))


def test_prompt_and_answer_fill_the_length() -> None:
    for row in probes(chat(), ASKED, 0):
        prompt = chat().render(row, add_generation_prompt=True)  # type: ignore[arg-type]
        free = row["length"] - ASKED.room - len(prompt.ids)
        assert 0 <= free <= 250  # two units: a section has four sentences in each


def test_each_task_at_each_length_and_other_rows_for_another_seed() -> None:
    rows = probes(chat(), ASKED, 0)
    assert Counter((row["task"], row["length"]) for row in rows) == {
        (task, length): 2 for task in get_args(TaskName) for length in ASKED.lengths
    }
    assert rows == probes(chat(), ASKED, 0)
    others = {said(row, "user")[0] for row in probes(chat(), ASKED, 1)}
    assert not others & {said(row, "user")[0] for row in rows}


def test_needles_lie_anywhere() -> None:
    asked = Probes(tokenizer="t", rows=60, lengths=(2048,), tasks=("needle",), room=16)
    prompts = [said(row, "user")[0] for row in probes(chat(), asked, 0)]
    places = [prompt.index("A number of") / len(prompt) for prompt in prompts]
    assert min(places) < 0.1 < 0.85 < max(places)


@pytest.mark.parametrize(("answer", "tools", "told"), [("tool", 1, "tool"), ("text", 0, "commas")])
def test_answers_through_the_tool_or_in_the_text(answer: Any, tools: int, told: str) -> None:
    asked = Probes(tokenizer="t", rows=1, lengths=(600,), tasks=("multi_value",), answer=answer)
    (row,) = probes(chat(), asked, 0)
    assert len(row["tools"]) == tools
    assert told in said(row, "user")[0]
    assert row["verifier"] == "answer"


def test_common_words_are_as_in_ruler() -> None:
    assert commonness(4096) == (10, 30, 3)
    probe = TASKS["common_words"](random.Random(0), 50, 4096)
    counts = Counter(Counter(probe.prompt.partition("\n\n")[0].split()).values())
    assert counts == {30: 10, 3: 50}


def test_what_does_not_fit_names_its_task() -> None:
    asked = Probes(tokenizer="t", rows=1, lengths=(64,), room=32)
    with pytest.raises(ValueError, match="needle does not fit into 64 tokens, 32 of them for"):
        probes(chat(), asked, 0)


def test_more_coined_words_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 421,875"):
        coined(random.Random(0), 400_001)
