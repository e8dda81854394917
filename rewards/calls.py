"""Calls of tools as a model writes them, in JSON: one reading for rewards, training and serving.

Always holds: what two readers might take for different calls is none of them: a key that comes
twice, NaN or an infinity (1e999 is one), half a surrogate pair.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ANSWER_TOOL, ANSWERS = "display_answers", "answers"
"""Tool through which a final answer is given, and its one argument (facts.md 2.6)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, its arguments as decoded from JSON."""

    name: str
    arguments: Any


def decoded(text: str) -> Any:
    """The value of a JSON text; ValueError or RecursionError if it is none, or ambiguous."""
    value = _STRICT.decode(text)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # ValueError for half a surrogate pair.
    return value


def calls(text: str) -> Sequence[Call]:
    """The calls in a JSON array of objects with one key each, the tool's name.

    ValueError says what is wrong with it; RecursionError if it nests too deep.
    """
    content = decoded(text)
    if not isinstance(content, list) or not content:
        raise ValueError("not a JSON array of calls")
    if not all(isinstance(call, dict) and len(call) == 1 for call in content):
        raise ValueError("each call must be an object with one key, the tool's name")
    return [Call(*next(iter(call.items()))) for call in content]


def answers(arguments: Any, name: str = ANSWERS) -> list[str] | None:
    """The answers in the arguments of an answer tool; None if it is not well-formed.

    That is one argument, `name`, a list of strings; a JSON integer stands for its digits.
    """
    if not isinstance(arguments, dict) or len(arguments) != 1:
        return None
    given = arguments.get(name)
    if not isinstance(given, list) or not all(map(_is_answer, given)):
        return None
    return [str(answer) for answer in given]


def _is_answer(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key comes twice")
    return content


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"{digits[:20]} is beyond what a number can be")
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
