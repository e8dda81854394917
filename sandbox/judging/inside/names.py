"""Names that programs written for coding sites use without importing them.

Only those that a text really uses are imported, so an unused one costs nothing, and never as a
function of the program: see `harness.Solution`.
"""

import importlib
import sys
from types import CodeType
from typing import Any

_TYPING = (
    "Any Callable Dict Deque Generator Iterable Iterator List Optional Sequence Set Tuple Union"
)
_MATH = (
    "ceil comb fabs factorial floor gcd inf isclose isfinite isinf isnan isqrt log log2 pi prod "
    "sqrt"
)
_ITERTOOLS = "accumulate chain combinations count cycle groupby permutations product zip_longest"

_OF = {
    "typing": _TYPING,
    "math": _MATH,
    "itertools": _ITERTOOLS,
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
}
_MODULES = (
    "bisect collections copy datetime functools heapq itertools json math operator os random re "
    "statistics string sys time typing"
)

_ONE_BY_ONE = {name: module for module, names in _OF.items() for name in names.split()}
"""Name -> the module that has it."""

STANDARD = {*sys.stdlib_module_names, "np", "numpy", "pytest", "approx", *_ONE_BY_ONE}
"""Names that mean the library's, whatever else is called so."""


def used_by(code: CodeType) -> set[str]:
    """All names that a compiled text looks up in its module or as attributes."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= used_by(constant)
    return names


def supplied_to(code: CodeType) -> dict[str, Any]:
    """What `code` may use without having imported it."""
    used = used_by(code)
    found = {name: importlib.import_module(name) for name in _MODULES.split() if name in used}
    for name in used & set(_ONE_BY_ONE):
        if name not in found:
            found[name] = getattr(importlib.import_module(_ONE_BY_ONE[name]), name)
    return found
