"""Gold in the public formats of code data sets, turned into what the sandbox takes.

    {"inputs": [...], "outputs": [...]}         read and printed (APPS, TACO, CodeContests)
    {..., "fn_name": "f"}                       lists of arguments, and values (APPS, TACO); or
                                                texts with a JSON value a line (LiveCodeBench)
    [{"input": "...", "output": "..."}]         read and printed (open-instruct)
    {"asserts": [...], "entry_point": "f"}      also as `test_list`, `test_setup_code` (MBPP)
    ["assert f(1) == 2", ...]                   the same without an entry point (AceCoder)
    {"test": "def check(candidate): ...", "entry_point": "f"}       HumanEval
    {"test": "from solution import f ..."}      a pytest file (KodCode)
    {"files": {"test_x.py": "..."}}             several

A text is read as JSON of any of these, or as a pytest file. Packed tests (base64, zlib, pickle) are
refused: unpickling runs whatever they hold.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

_PYTEST = re.compile(
    r"^\s*(?:from\s+solution\s+import|import\s+solution|def\s+test|class\s+Test)", re.M
)
_CHECK = re.compile(r"^\s*(?:def\s+check\b|check\s*=)", re.M)


class BadGold(ValueError):
    """The gold holds no tests that can be carried out; says why."""


class _Gold(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Cases(_Gold):
    """Inputs and outputs, or arguments and values of `fn_name`."""

    inputs: list[JsonValue]
    outputs: list[JsonValue]
    fn_name: str | None = None


class Pair(_Gold):
    """One input and its output."""

    input: str
    output: str


class Asserts(_Gold):
    """Assert statements, each a test."""

    asserts: list[str] = Field(validation_alias=AliasChoices("asserts", "test_list"))
    entry_point: str | None = None
    setup: str = Field(default="", validation_alias=AliasChoices("setup", "test_setup_code"))


class Check(_Gold):
    """A function `check(candidate)`; without an entry point, a pytest file."""

    test: str
    entry_point: str | None = None


class Files(_Gold):
    """Pytest files by name."""

    files: dict[str, str]


Gold = Cases | Asserts | Check | Files | list[Pair] | list[str] | str
GOLD: TypeAdapter[Gold] = TypeAdapter(Gold)


def suite(gold: Gold, wrapped_outputs: bool) -> Mapping[str, Any]:
    """Mode and tests of a submission; BadGold if there are none."""
    if isinstance(gold, str):
        gold = _unpacked(gold)
    if isinstance(gold, Cases):
        return _cases(gold, wrapped_outputs)
    if isinstance(gold, list):
        return _listed(gold)
    if isinstance(gold, Asserts):
        return _asserts(gold.asserts, gold.entry_point, gold.setup)
    assert not isinstance(gold, str)
    if isinstance(gold, Files):
        return {"mode": "pytest", "files": gold.files}
    if gold.entry_point is None:
        return {"mode": "pytest", "files": {"test_solution.py": gold.test}}
    if not _CHECK.search(gold.test):
        raise BadGold("test defines no function `check`")
    call = f"{gold.test}\n\ncheck({gold.entry_point})\n"
    return {"mode": "assert", "entry_point": gold.entry_point, "tests": [{"code": call}]}


def _unpacked(text: str) -> Gold:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        if _PYTEST.search(text):
            return Check(test=text)
        raise BadGold("the text is neither JSON nor pytest; packed tests are not read") from None
    if isinstance(content, str):
        raise BadGold("a text within a text")
    return GOLD.validate_python(content)


def _listed(gold: Sequence[Pair] | Sequence[str]) -> Mapping[str, Any]:
    pairs = [one for one in gold if isinstance(one, Pair)]
    if not pairs:
        return _asserts([one for one in gold if isinstance(one, str)], None, "")
    return _stdio([(one.input, one.output) for one in pairs])


def _asserts(statements: Sequence[str], entry_point: str | None, setup: str) -> Mapping[str, Any]:
    if not statements:
        raise BadGold("there are no tests")
    tests = [{"code": statement} for statement in statements]
    return {"mode": "assert", "entry_point": entry_point, "setup": setup, "tests": tests}


def _stdio(pairs: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    if not pairs:
        raise BadGold("there are no tests")
    return {"mode": "stdio", "tests": [{"stdin": read, "expected": out} for read, out in pairs]}


def _cases(gold: Cases, wrapped_outputs: bool) -> Mapping[str, Any]:
    if len(gold.inputs) != len(gold.outputs):
        raise BadGold(f"{len(gold.inputs)} inputs and {len(gold.outputs)} outputs")
    if gold.fn_name is None:
        pairs = zip(map(_text, gold.inputs), map(_text, gold.outputs), strict=True)
        return _stdio(list(pairs))
    if not gold.inputs:
        raise BadGold("there are no tests")
    calls = zip(gold.inputs, gold.outputs, strict=True)
    tests = [_call(args, value, wrapped_outputs) for args, value in calls]
    return {"mode": "function", "function": gold.fn_name, "tests": tests}


def _text(value: JsonValue) -> str:
    """What is read or printed; some data sets write it as a list of lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(map(str, value)) + "\n"
    raise BadGold("an input or output is neither a text nor a list of lines")


def _call(args: JsonValue, value: JsonValue, wrapped_outputs: bool) -> Mapping[str, Any]:
    if isinstance(args, str):
        if not isinstance(value, str):
            raise BadGold("arguments are a text, but the value is not")
        args = [_json(line) for line in args.splitlines() if line.strip()]
        value = _json(value)
    if not isinstance(args, list):
        raise BadGold("arguments are not a list")
    if wrapped_outputs:
        if not isinstance(value, list) or len(value) != 1:
            raise BadGold("an output is not a list of one value, as `wrapped_outputs` says")
        value = value[0]
    return {"args": args, "expected": value}


def _json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        raise BadGold("arguments or a value are not JSON") from None
    return value
