"""Answers that reasoning-gym evaluates as Python: which may be, since they can call nothing.

Always holds: what is harmless here calls no function but those of mathematics, reads no attribute
and imports nothing, so that evaluating it can be slow and no worse.
"""

import re

GENERATORS = frozenset(
    {
        "string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "simple_integration",
        "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown",
    }
)  # fmt: skip
"""Those that give an answer to `eval`, or to SymPy's parser, which does. Version 0.1.25."""

_FUNCTIONS = (
    "sqrt", "exp", "log", "ln", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "Abs", "Integral", "erf", "erfi", "Ei", "Si", "Ci", "li",
)  # fmt: skip
_CALL = re.compile(r"(?P<called>\w+|[\])}'\"])\s*\(")
_NUMBER = re.compile(r"\d+(\.\d*)?")
_ELSE = re.compile(r"__|\.\s*[^\W\d]|[\\#@;]|\b(?:lambda|import|for|if|await|yield)\b|:=")


def harmless(answer: str) -> bool:
    """Whether evaluating `answer` can do nothing but compute.

    A sign between a number or a bracket and the bracket after it may be left out: 2(x + 1).
    """
    if not answer.isascii() or _ELSE.search(answer):
        return False
    return all(_multiplied(found["called"]) for found in _CALL.finditer(answer))


def _multiplied(before: str) -> bool:
    return before == ")" or before in _FUNCTIONS or bool(_NUMBER.fullmatch(before))
