"""Answers that reasoning-gym evaluates as Python: which may be, since they can call nothing.

Always holds: what is harmless here calls no function but those of mathematics, reads no attribute
and imports nothing, so that evaluating it can be slow and no worse. Text in quotes is no part of a
formula: SymPy would evaluate what it says.
"""

import re

_LITERALS = frozenset({"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"})
"""Those that give an answer to `eval`, for it may be a list."""

_FORMULAS = frozenset(
    {
        "simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24",
        "countdown",
    }
)  # fmt: skip
"""Those that give it to SymPy's parser, which gives it to `eval`."""

GENERATORS = _LITERALS | _FORMULAS
"""All of them, in version 0.1.25."""

_FUNCTIONS = (
    "sqrt", "exp", "log", "ln", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "Abs", "Integral", "erf", "erfi", "Ei", "Si", "Ci", "li",
)  # fmt: skip
_CALL = re.compile(r"(?P<called>\w+|[\])}'\"])\s*\(")
_NUMBER = re.compile(r"\d+(\.\d*)?")
_ELSE = re.compile(r"__|\.\s*[^\W\d]|[\\#@;]|\b(?:lambda|import|for|if|await|yield)\b|:=")
_QUOTE = re.compile(r"['\"]")
_NAME = re.compile(r"[^\W\d]\w*")


def harmless(generator: str, answer: str) -> bool:
    """Whether evaluating `answer`, as `generator` of `GENERATORS` does, can do nothing but compute.

    A sign between a number or a bracket and the bracket after it may be left out: 2(x + 1).
    """
    if not answer.isascii() or _ELSE.search(answer):
        return False
    if generator in _LITERALS:
        return _CALL.search(answer) is None
    if _QUOTE.search(answer):
        return False
    return all(_multiplied(found["called"], answer) for found in _CALL.finditer(answer))


def _multiplied(before: str, answer: str) -> bool:
    if before == ")":  # What is in the brackets must not be something that can be called.
        return all(_is_variable(name) or name in _FUNCTIONS for name in _NAME.findall(answer))
    return before in _FUNCTIONS or bool(_NUMBER.fullmatch(before))


def _is_variable(name: str) -> bool:
    """Whether it is a small letter: of those, neither Python nor SymPy names anything so."""
    return len(name) == 1 and name.islower()
