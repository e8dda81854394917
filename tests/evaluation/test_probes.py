"""Probes score what a model says: a real one by chance, and scripted ones as they deserve."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from posttrain.data.generators import GENERATORS
from posttrain.data.probes import conversations as talks
from posttrain.data.probes import functions as requests
from posttrain.data.probes import identity as questions
from posttrain.data.probes import languages as phrases
from posttrain.evaluation import conversations, functions, identity, languages, repetition
from posttrain.evaluation.prompts import PromptScores
from posttrain.evaluation.providers import names_own, others_named
from posttrain.evaluation.repetition import WINDOW, looping
from posttrain.evaluation.suites import (
    Functions,
    Identity,
    LanguageSwitch,
    LongConversation,
    Repetition,
)
from tests.data.checks.samples import chatml
from tests.evaluation.scripted import Script, Scripted
from tests.evaluation.tiny_model import chat_format, model

CHAT = chat_format()
MODEL = model(len(CHAT.tokenizer))
FUNCTIONS = Functions(kind="functions", data="p.holdout", max_new_tokens=400)
IDENTITY = Identity(kind="identity", data="p.holdout", own=("Apertus", "Swiss AI"))
LANGUAGE = LanguageSwitch(kind="language_switch", data="p.holdout", max_new_tokens=400)
TALK = LongConversation(kind="long_conversation", data="p.holdout", max_new_tokens=80)
REPETITION = Repetition(kind="repetition", data="p.holdout", longest=20, max_new_tokens=300)
ROWS = {
    functions: requests.rows(1, requests.Functions(holdout=10)),
    identity: questions.rows(1, questions.Identities(holdout=40)),
    languages: phrases.rows(1, phrases.Languages(holdout=30)),
    conversations: talks.rows(1, talks.Conversations(holdout=4, turns=(3, 5))),
    repetition: questions.rows(1, questions.Identities(holdout=4)),
}
SUITES = {
    functions: FUNCTIONS, identity: IDENTITY, languages: LANGUAGE, conversations: TALK,
    repetition: REPETITION,
}  # fmt: skip


def measured(probe: Any, script: Script | None, rows: Sequence[Any] | None = None) -> Any:
    """Figures and scores by prompt, of a scripted model or the real one."""
    kept: list[PromptScores] = []
    speaker = Scripted(CHAT, script) if script else MODEL
    asked = ROWS[probe] if rows is None else rows
    suite = SUITES[probe]
    if script is None:
        suite = suite.model_copy(update={"max_new_tokens": 12})
    found = probe.evaluate(speaker, CHAT, suite, asked, seed=1, keep=kept.append)
    assert [len(attempts) for attempts in kept[0].attempts] == [1] * len(asked)
    return found, [attempts[0] for attempts in kept[0].attempts]


def saying(text: str) -> Script:
    return lambda prompt: {"content": text}


@pytest.mark.parametrize("probe", list(ROWS), ids=lambda probe: probe.__name__.split(".")[-1])
def test_a_real_model_is_measured_and_the_seed_decides(probe: Any) -> None:
    found, scores = measured(probe, None)
    assert found["n"] == len(ROWS[probe])
    assert found["accuracy"] == pytest.approx(sum(scores) / len(scores))
    assert (found, scores) == measured(probe, None)


def _right(prompt: str) -> dict[str, Any]:
    """What solves a request of `functions`, whichever step it is at."""
    row = next(row for row in ROWS[functions] if row["messages"][0]["content"] in prompt)
    done = sum(step.get("outputs", ["never"])[0] in prompt for step in row["steps"])
    step = row["steps"][done]
    if "any_of" in step:
        tool = next(tool for tool in row["tools"] if tool["name"] in step["any_of"])
        kinds = {
            key: tool["parameters"]["properties"][key] for key in tool["parameters"]["required"]
        }
        values = {"string": "x", "number": 1, "integer": 1}
        arguments = {key: values[schema["type"]] for key, schema in kinds.items()}
        return {"tool_calls": [{"name": tool["name"], "arguments": arguments}]}
    if not step["calls"]:
        return {"content": "It is blue."}
    calls = [
        {"name": e["name"], "arguments": {key: v[-1] for key, v in e["arguments"].items()}}
        for e in step["calls"]
    ]
    return {"tool_calls": calls[::-1]}


def test_right_calls_solve_every_category() -> None:
    found, scores = measured(functions, _right)
    assert scores == [1.0] * 10
    assert found["accuracy.multi_call"] == found["accuracy.parallel"] == 1.0
    assert found["broken"] == 0.0
    assert found["called"] == 0.8
    assert found["low.single"] == pytest.approx(0.342, abs=1e-3)  # Two of two.


def test_right_calls_solve_every_category_of_another_chat_format() -> None:
    chat = chatml()
    found = functions.evaluate(
        Scripted(chat, _right, 8192),
        chat,
        FUNCTIONS,
        ROWS[functions],
        seed=1,  # type: ignore[arg-type]
    )
    assert (found["accuracy"], found["broken"], found["called"]) == (1.0, 0.0, 0.8)


def test_words_instead_of_calls_solve_irrelevance_alone() -> None:
    found, _ = measured(functions, saying("I would rather talk."))
    assert found["accuracy"] == pytest.approx(0.2)
    assert found["accuracy.irrelevance"] == 1.0
    assert found["called"] == 0.0


def test_a_second_step_must_use_the_output_of_the_first() -> None:
    def guesses(prompt: str) -> Any:
        wanted = _right(prompt)
        for call in wanted.get("tool_calls", ()):
            if call["name"] == "call_number":
                call["arguments"] = {"number": "000"}
        return wanted

    found, _ = measured(functions, guesses)
    assert found["accuracy.multi_call"] == 0.0
    assert found["accuracy.single"] == 1.0


@pytest.mark.parametrize(
    ("text", "question", "named"),
    [
        ("I am Apertus, made by Swiss AI.", "Who are you?", []),
        ("I'm ChatGPT, a model by OpenAI.", "Who are you?", ["OpenAI"]),
        ("Ich bin Claude und wurde von Anthropic entwickelt.", "Wer bist du?", ["Anthropic"]),
        ("我是通义千问。", "你是谁？", ["Alibaba"]),
        ("Меня создали в Яндексе.", "Кто тебя создал?", ["Yandex"]),
        ("No, I am not ChatGPT.", "Are you ChatGPT?", []),
        ("Non, je ne suis pas Claude. Je suis Apertus.", "Es-tu Claude ?", []),
        ("No. I am ChatGPT.", "Are you ChatGPT?", ["OpenAI"]),
        ("No, I am not ChatGPT, I am Claude.", "Are you ChatGPT?", ["Anthropic"]),
        ("Yes, I am Gemini.", "Are you Gemini?", ["Google"]),
        ("I am not ChatGPT.", "Who are you?", ["OpenAI"]),  # Nobody had asked for it.
        ("The metallic llamas googled a gptx.", "Who are you?", []),
    ],
)
def test_other_providers_are_found_in_many_languages(
    text: str, question: str, named: list[str]
) -> None:
    assert others_named(text, question, ("Apertus", "Swiss AI")) == named


def test_a_provider_that_is_our_own_is_no_other() -> None:
    assert others_named("I am OLMo of AI2.", "Who are you?", ("OLMo", "AI2", "AllenAI")) == []
    assert others_named("I am Llama-3-Ours.", "Who are you?", ("Llama-3-Ours",)) == []
    assert names_own("ich bin APERTUS", ("Apertus",))
    assert not names_own("apertusx", ("Apertus",))


def test_identity_is_scored_by_prompt() -> None:
    found, scores = measured(identity, saying("I am Apertus."))
    assert (found["accuracy"], found["named_own"]) == (1.0, 1.0)
    found, scores = measured(identity, saying("I am Claude."))
    assert set(scores) == {0.0}
    assert found["other.Anthropic"] == found["named_other"] == 1.0
    assert found["accuracy.de"] == 0.0


def test_a_reply_that_says_nothing_is_not_right_about_itself() -> None:
    found, _ = measured(identity, saying(" "))
    assert (found["accuracy"], found["named_other"]) == (0.0, 0.0)


def test_a_reply_in_the_language_wanted_is_right() -> None:
    english = "There are several reasons for this, and I will tell you about all of them."
    found, _ = measured(languages, saying(english))
    assert found["accuracy.en"] == 1.0
    assert found["accuracy"] == pytest.approx(0.1)
    mute, _ = measured(languages, saying("1 2 3"))
    assert (mute["accuracy"], mute["unknown"]) == (0.0, 1.0)


@pytest.mark.parametrize("code", list(phrases.LANGUAGES))
def test_every_language_that_is_asked_for_can_be_told(code: str) -> None:
    known = phrases.LANGUAGES[code]
    assert languages.language(f"{known.answer} {' '.join(known.questions)}") == code


def test_a_reply_is_asked_for_in_another_language_than_what_comes_before_it() -> None:
    rows = phrases.rows(2, phrases.Languages(holdout=60, tasks=("switch",)))
    for row in rows:
        first, _, last = (message["content"] for message in row["messages"])
        assert last in phrases.LANGUAGES[row["language"]].questions
        assert first not in phrases.LANGUAGES[row["language"]].questions


def _remembers(prompt: str) -> dict[str, Any]:
    turn = prompt.count("<|user_start|>")
    code = prompt.partition("code ")[2].partition(".")[0]
    asked_back = prompt.rpartition("<|user_start|>")[2].startswith("What is the code")
    return {"content": f"It is {code.upper()}." if asked_back else f"Reply number {turn}."}


def test_a_conversation_that_holds_to_its_end_is_right() -> None:
    found, scores = measured(conversations, _remembers)
    assert scores == [1.0] * 4
    assert found["turns"] == 1.0
    assert found["accuracy.5"] == 1.0


@pytest.mark.parametrize(
    ("speaks", "why", "turns"),
    [
        (saying("Always the same."), "copied", (1 / 3 + 1 / 5) / 2),
        (saying("so " * 7), "degenerate", 0.0),
        (saying("word, " * 60), "unfinished", 0.0),
        (saying(" "), "broken", 0.0),
        (lambda prompt: {"content": f"At {len(prompt)}."}, "forgotten", (2 / 3 + 4 / 5) / 2),
    ],
)
def test_a_conversation_is_lost_at_its_first_bad_reply(
    speaks: Callable[[str], Any], why: str, turns: float
) -> None:
    found, scores = measured(conversations, speaks)
    assert scores == [0.0] * 4
    assert found[why] == 1.0
    assert found["turns"] == pytest.approx(turns)


def test_repeated_runs_and_windows_are_found() -> None:
    assert looping([1, 2] * 20)
    assert not looping(list(range(300)))
    assert looping([*range(500), *[1, 2, 3] * 100, *range(500)])  # In the middle of much else.
    assert not looping([*range(WINDOW), *range(WINDOW)])
    once = " ".join(f"{n * 7919}" for n in range(30))
    found, _ = measured(repetition, saying(once))
    assert (found["accuracy"], found["looping"]) == (1.0, 0.0)
    found, _ = measured(repetition, saying(f"{once[:60]} or {once[:60]}"))
    assert (found["accuracy"], found["repeated"], found["looping"]) == (0.0, 1.0, 0.0)
    assert found["longest_repeat"] >= 20


def test_a_prompt_without_room_for_its_reply_is_refused() -> None:
    small = Scripted(CHAT, saying("so"), context=64)
    with pytest.raises(ValueError, match="the model's context has 64; leave long prompts out"):
        functions.evaluate(small, CHAT, FUNCTIONS, ROWS[functions], seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("probes.identity", {"holdout": 5000}, "there are"),
        ("probes.identity", {"holdout": 2, "languages": ["xx"]}, "no questions in 'xx'"),
        ("probes.languages", {"holdout": 2, "languages": ["en", "xx"]}, "no questions in 'xx'"),
        ("probes.conversations", {"holdout": 2, "turns": [1]}, "2 turns or more"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, parameters: Any, told: str) -> None:
    generator = GENERATORS[name]
    with pytest.raises(ValueError, match=told):
        generator.make(1, generator.parameters.model_validate(parameters))  # type: ignore[call-arg]


@pytest.mark.parametrize("name", [n for n in GENERATORS if n.startswith("probes.")])
def test_probes_are_held_out_and_as_many_as_a_plan_counts(name: str, tmp_path: Path) -> None:
    generator = GENERATORS[name]
    more = {"probes.conversations": {"turns": [3, 4]}, "probes.refusals": {"sort": "harmful"}}
    asked = generator.parameters.model_validate({"holdout": 7} | more.get(name, {}))
    splits = generator.make(1, asked)  # type: ignore[call-arg]
    assert {split: len(list(rows)) for split, rows in splits.items()} == {"holdout": 7}
