"""Prompts with what is expected of a reply to each: the file that `--prompts` names.

Always holds: every prompt says what is right; a line that does not is refused with its number.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from posttrain.evaluation.suites import Suite


class _Expectation(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pattern(_Expectation):
    """The reply's text has (`matches`), or lacks (`lacks`), what a regular expression finds."""

    matches: str | None = None
    lacks: str | None = None

    @field_validator("matches", "lacks")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as fault:
            raise ValueError(f"no regular expression: {fault}") from None
        return value

    def holds(self, text: str) -> bool:
        """Whether `text` is as expected."""
        found = self.matches is None or re.search(self.matches, text) is not None
        return found and (self.lacks is None or re.search(self.lacks, text) is None)


class Verified(_Expectation):
    """A verifier of the reward service gives the reply its full score."""

    verifier: str
    gold: Any
    parameters: Mapping[str, Any] = Field(default_factory=dict)


class Measured(_Expectation):
    """The prompt is right by a suite, given as in a recipe but without its `data`."""

    suite: Mapping[str, Any]

    @field_validator("suite")
    @classmethod
    def _known(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        _SUITE.validate_python({**value, "data": _DATA})
        return value

    def resolved(self) -> Suite:
        """The suite."""
        return _SUITE.validate_python({**self.suite, "data": _DATA})


_DATA = "prompts.holdout"
_SUITE: TypeAdapter[Suite] = TypeAdapter(Suite)
_JSON: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
Expectation = Pattern | Verified | Measured


class Prompt(BaseModel):
    """A row as suites read it, and what is expected; a plain question may be a `prompt`."""

    model_config = ConfigDict(frozen=True)

    row: Mapping[str, Any]
    expect: Expectation


def read(path: Path) -> list[Prompt]:
    """The prompts of a JSON lines file; ValueError names the line that is none."""
    if not path.is_file():
        raise ValueError(f"{path} is no file; --prompts names JSON lines with an `expect` each")
    lines = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no prompts")
    return [_prompt(path, number, line) for number, line in enumerate(lines, 1)]


def _prompt(path: Path, number: int, line: str) -> Prompt:
    try:
        content = _JSON.validate_json(line)
        expect = _expected(content.pop("expect", None))
        if isinstance(question := content.pop("prompt", None), str):
            content["messages"] = [{"role": "user", "content": question}]
        if "messages" not in content and "turns" not in content:
            raise ValueError("it has neither `prompt` nor `messages`")
        return Prompt(row={"tools": [], "deliberation": False, **content}, expect=expect)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    except ValueError as fault:
        told = str(fault)
    raise ValueError(f"{path} line {number}: {told}")


def _expected(value: Any) -> Expectation:
    if not isinstance(value, Mapping) or not value:
        raise ValueError('it says not what is right; add e.g. "expect": {"matches": "Bern"}')
    if "verifier" in value:
        return Verified.model_validate(value)
    return (Measured if "suite" in value else Pattern).model_validate(value)
