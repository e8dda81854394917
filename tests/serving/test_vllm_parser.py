"""vLLM takes our parser for both of its kinds, and is told by it what the ids say."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.serving.server import _PLUGIN
from tests.serving.test_reading import APERTUS, CALLS, THOUGHT, ids

pytest.importorskip("vllm")
from vllm.parser import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from posttrain.serving.manifest import PARSER
from posttrain.serving.vllm_parser import IdParser

TOOLS = [
    SimpleNamespace(function=SimpleNamespace(name=name, parameters={"type": "object"}))
    for name in ("add", "mul")
]
CALL = ("<|tools_prefix|>", CALLS, "<|tools_suffix|>")


def request(**settings: Any) -> SimpleNamespace:
    usual = {
        "tools": TOOLS, "tool_choice": "auto", "stop": None, "include_reasoning": True,
        "include_stop_str_in_output": False, "skip_special_tokens": True, "response_format": "x",
        "structured_outputs": None,
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **settings})


def parser(**kwargs: Any) -> IdParser:
    return IdParser(APERTUS.tokenizer, TOOLS, chat_template_kwargs=kwargs, model_config=None)


def whole(asked: Any, *parts: str, **kwargs: Any) -> tuple[Any, Any, list[tuple[str, str]]]:
    made = ids(APERTUS, *parts)
    text = APERTUS.tokenizer.decode(made)
    for stop in asked.stop or ():
        text = text.split(stop)[0]
    thoughts, content, calls = parser(**kwargs).parse(text, asked, True, made)
    return thoughts, content, [(call.name, call.arguments) for call in calls or ()]


def streamed(
    asked: Any, deltas: Sequence[Sequence[int]], texts: Sequence[str] | None = None
) -> tuple[str, str, list[tuple[str, str]]]:
    told, thoughts, content = parser(), "", ""
    calls: list[tuple[str, str]] = []
    for number, delta in enumerate(deltas):
        text = texts[number] if texts else ""
        found = told.parse_delta(text, list(delta), asked, [1], finished=number == len(deltas) - 1)
        if found is not None:
            thoughts += found.reasoning or ""
            content += found.content or ""
            calls += [(call.function.name, call.function.arguments) for call in found.tool_calls]
            assert [call.index for call in found.tool_calls] == list(
                range(len(calls) - len(found.tool_calls), len(calls))
            )
    return thoughts, content, calls


def test_the_plug_in_makes_one_parser_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ReasoningParserManager.import_reasoning_parser(str(_PLUGIN))
    ToolParserManager.import_tool_parser(str(_PLUGIN))
    found = ParserManager.get_parser(PARSER, PARSER, enable_auto_tools=True)
    assert found is IdParser
    engine = ReasoningParserManager.get_reasoning_parser(PARSER)(APERTUS.tokenizer)
    assert engine.is_reasoning_end(ids(APERTUS, *THOUGHT))
    assert not engine.is_reasoning_end(ids(APERTUS, "<|inner_prefix|>", "hm"))
    assert Path(_PLUGIN).is_file()


def test_a_whole_response() -> None:
    found = whole(request(), *THOUGHT, "so", *CALL, "<|assistant_end|>")
    assert found == ("hm", "so", [("add", '{"a": 1}'), ("mul", '{"b": [2]}')])


def test_thoughts_that_the_prompt_opened() -> None:
    assert whole(request(), "hm", "<|inner_suffix|>", "yes", force_thinking=True)[:2] == (
        "hm", "yes",
    )  # fmt: skip


def test_calls_that_are_forbidden_or_undeclared_are_not_told() -> None:
    assert whole(request(tool_choice="none"), "so", *CALL) == (None, "so", [])
    assert whole(request(tools=None), "so", *CALL) == (None, "so", [])


def test_a_stream_tells_the_same() -> None:
    made = ids(APERTUS, *THOUGHT, "so ", *CALL, "<|assistant_end|>")
    found = streamed(request(), [[token] for token in made])
    assert found == ("hm", "so ", [("add", '{"a": 1}'), ("mul", '{"b": [2]}')])
    quiet = streamed(request(include_reasoning=False), [[token] for token in made])
    assert quiet[:2] == ("", "so ")


@pytest.mark.parametrize("choice", ["required", "named"])
def test_a_call_that_is_demanded_is_generated_as_json(choice: str) -> None:
    named = SimpleNamespace(function=SimpleNamespace(name="mul"))
    asked = request(tool_choice="required" if choice == "required" else named)
    parser().adjust_request(asked)
    assert asked.skip_special_tokens is False
    assert asked.response_format is None
    schema = asked.structured_outputs.json
    assert schema["type"] == "array"
    assert ("anyOf" in schema["items"]) == (choice == "required")
    text = '[{"mul": {"b": 2}}]'
    assert whole(asked, text, "</s>") == (None, None, [("mul", '{"b": 2}')])
    assert streamed(asked, [[token] for token in ids(APERTUS, text, "</s>")]) == (
        "", "", [("mul", '{"b": 2}')],
    )  # fmt: skip
    assert whole(asked, text[:-2]) == (None, text[:-2], [])


def test_what_stops_at_a_text_is_cut_there() -> None:
    asked = request(stop=["for"])
    made = ids(APERTUS, *THOUGHT, "what is this for, then?")
    assert whole(asked, *THOUGHT, "what is this for, then?")[1] == "what is this "
    text = APERTUS.tokenizer.decode(made).split("for")[0]
    texts = [text[:3], text[3:20], text[20:], ""]
    parts = [made[:2], made[2:5], made[5:8], made[8:]]
    assert streamed(asked, parts, texts)[:2] == ("hm", "what is this ")
    never = request(stop=["never"])
    full = APERTUS.tokenizer.decode(made)
    assert streamed(never, [made], [full])[:2] == ("hm", "what is this for, then?")


def test_thoughts_are_counted() -> None:
    made = ids(APERTUS, *THOUGHT, "so")
    assert parser().count_reasoning_tokens(made) == len(ids(APERTUS, "hm"))
    assert parser(force_thinking=True).count_reasoning_tokens(made[1:]) == len(ids(APERTUS, "hm"))
    assert parser().extract_content_ids(made) == ids(APERTUS, "so")


def test_a_schema_is_plain_json() -> None:
    asked = request(tool_choice="required")
    parser().adjust_request(asked)
    assert json.loads(json.dumps(asked.structured_outputs.json)) == asked.structured_outputs.json
