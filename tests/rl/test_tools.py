"""Tools answer each call alike, in bounded time; a fault of their service is no answer."""

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.turn import ToolCall
from posttrain.rl.calculator import calculate
from posttrain.rl.config import RlConfig
from posttrain.rl.degeneration import DegenerationConfig, degenerate
from posttrain.rl.prompts import freeze
from posttrain.rl.tools import MOST_CALLS, Output, Toolbox, ToolFaultError
from tests.sandbox.service import Service, serving


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("sandbox"), "--slots", "2") as running:
        yield running


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ("3*4", "12"), ("0.1+0.2", "0.3"), ("1/3", "0.333333333333333"), ("2^10", "1024"),
        ("-7 // 2", "-4"), ("7 % 4", "3"), ("(1+2)×3", "9"), ("2**-2", "0.25"), ("1e3", "1000"),
        ("(-1)**1000000000000001", "-1"), ("1/10**300", "1e-300"), ("0**0", "1"), ("0x10", "16"),
    ],
)  # fmt: skip
def test_arithmetic_is_exact(asked: str, value: str) -> None:
    assert calculate(asked) == value


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("1/0", "division by zero"), ("0**-1", "division by zero"), ("9**9**9**9", "too large"),
        ("1e999999999", "too large"), ("1e-999999999", "too large or too small"), ("1+", "not an"),
        ("2**0.5", "whole number"), ("abs(1)", "only numbers"), ("__import__('os')", "only"),
        ("1 if 1 else 2", "only"), ("'a'*9", "only"), ("True", "only"), ("1j", "only"),
        ("(" * 400, "not an"), ("1+" * 400 + "1", "longer than 500"), ("", "not an"),
        ("10**1000*10**1000", "too large"), ("0\x00", "not an"),
    ],
)  # fmt: skip
def test_what_has_no_value_says_so_at_once(asked: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        calculate(asked)


_SUMS = st.recursive(
    st.one_of(st.integers(0, 999).map(str), st.decimals("0", "99", places=2).map(str)),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda e: f"({''.join(e)})"),
    max_leaves=12,
)


@given(_SUMS)
def test_sums_are_those_of_fractions(asked: str) -> None:
    class Exact(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Call:
            return ast.parse(f"Fraction('{ast.get_source_segment(asked, node)}')").body[0].value  # type: ignore[attr-defined, no-any-return]

    tree = ast.fix_missing_locations(Exact().visit(ast.parse(asked, mode="eval")))
    exact: Fraction = eval(compile(tree, "", "eval"), {"Fraction": Fraction})
    found = Fraction(Decimal(calculate(asked)))
    assert abs(found - exact) <= abs(exact) * Fraction(1, 10**14)


@given(st.text(max_size=60))
def test_no_text_breaks_the_calculator(asked: str) -> None:
    try:
        said = calculate(asked)
    except ValueError as fault:
        said = str(fault)
    assert said


def _answers(toolbox: Toolbox, *calls: ToolCall) -> list[Output]:
    async def asked() -> list[Output]:
        try:
            return await toolbox.answer(calls)
        finally:
            await toolbox.close()

    return asyncio.run(asked())


def test_calls_are_answered_in_order_and_only_so_many() -> None:
    calls = [ToolCall("calculator", {"expression": f"{n}+1"}) for n in range(MOST_CALLS + 2)]
    found = _answers(Toolbox(["calculator"]), *calls)
    assert [each.text for each in found[:MOST_CALLS]] == [str(n + 1) for n in range(MOST_CALLS)]
    assert [each.error for each in found[MOST_CALLS:]] == [True, True]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print(6 * 7)", Output("42\n")),
        ("", Output("error: code: String should have at least 1 character", error=True)),
        ("print(1)\n1/0", Output("1\nerror: ZeroDivisionError: division by zero", error=True)),
        ("import sys; sys.exit(3)", Output("error: it ended with 3", error=True)),
        ("(", Output("error: SyntaxError: '(' was never closed", error=True)),
        ("input()", Output("error: EOFError: EOF when reading a line", error=True)),
    ],
)
def test_python_shows_what_a_program_printed(sandbox: Service, code: str, output: Output) -> None:
    assert _answers(Toolbox(["python"], sandbox.url), ToolCall("python", {"code": code})) == [
        output
    ]


def test_a_long_output_is_cut_and_says_so(sandbox: Service) -> None:
    call = ToolCall("python", {"code": "print('a' * 9999)"})
    [found] = _answers(Toolbox(["python"], sandbox.url), call)
    assert found == Output("a" * 2000 + "… (cut)")


def test_a_sandbox_that_is_gone_is_a_fault_and_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posttrain.rl.tools._PATIENCE", 0.2)
    with pytest.raises(ToolFaultError, match="tool python"):
        _answers(Toolbox(["python"], "http://127.0.0.1:1"), ToolCall("python", {"code": "1"}))


def test_python_without_a_sandbox_is_refused() -> None:
    with pytest.raises(ValueError, match="posttrain sandbox serve"):
        Toolbox(["calculator", "python"], "")


def _config(**changes: Any) -> RlConfig:
    source = {"data": "prompts", "verifier": "answer"}
    return RlConfig.model_validate(
        {"sources": {"sums": source}, "steps": 1, "prompts_per_step": 2} | changes
    )


@pytest.mark.parametrize(
    "turns",
    [{"most": 1, "tools": ["calculator"]}, {"most": 2, "tools": []}, {"most": 2, "tools": ["ls"]}],
)
def test_turns_that_make_no_sense_are_refused(turns: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _config(turns=turns)


def test_prompts_declare_the_tools_beside_their_own(tmp_path: Path, chat: ChatFormat) -> None:
    rows = tiny.prompts(3, 2, thinking=0.0)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = tmp_path / "prompts.jsonl"
    texts = []
    for turns in (None, {"most": 2, "tools": ["calculator"]}):
        freeze(_config(turns=turns), {"prompts": tmp_path}, chat, 7, target)
        row = json.loads(target.read_text().splitlines()[0])
        texts.append(chat.tokenizer.decode(row["ids"]))
        assert row["answer_tool"]
    assert "type calculator" not in texts[0]
    assert "type calculator = (_: {" in texts[1]
    assert all("type display_answers" in text for text in texts)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 50))
def test_a_tail_with_a_short_period_is_degenerate(period: list[int], before: int) -> None:
    config = DegenerationConfig(window=64, distinct=0.2)
    ids = [*range(100, 100 + before), *(period * 64)]
    assert degenerate(ids, config)
    assert not degenerate(ids[:63], config)


@given(st.lists(st.integers(0, 2**17), min_size=64, max_size=80, unique=True))
def test_a_tail_that_repeats_nothing_is_not(ids: list[int]) -> None:
    assert not degenerate(ids, DegenerationConfig(window=64, distinct=1.0))


def test_a_rule_that_nothing_meets_is_refused() -> None:
    with pytest.raises(ValidationError, match="never met"):
        DegenerationConfig(window=5, distinct=0.2)
