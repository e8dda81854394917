"""What takes a computer algebra system to read, as integrals and limits: left to Math-Verify.

Only a gold answer opens this way; its own alarms are off, since the worker's deadline is the bound.
"""

import logging
import re

from math_verify import parse, verify
from math_verify.parser import LatexExtractionConfig

from rewards.verifiers.math.arithmetic import Undefined
from rewards.verifiers.math.reading import Answer, tree
from rewards.verifiers.math.values import Evaluator

logging.getLogger("math_verify").setLevel(logging.ERROR)  # It warns that its alarms are off.

_BEYOND = re.compile(
    r"\\(?:i{0,2}int|oint|lim|partial|nabla|det)(?![a-z])"
    r"|\\frac\s*\{\s*d(?![a-z])|\\begin\{vmatrix\}"
)
_LONGEST = 300


def beyond(gold: str) -> bool:
    """Whether the gold text is of the kind that Math-Verify reads and these rules do not."""
    return len(gold) <= _LONGEST and _BEYOND.search(gold) is not None


def matches(gold: Answer, answer: Answer) -> bool:
    """Whether Math-Verify finds them equal; as `Evaluator.value` for an answer it would refuse."""
    if len(answer.text) > _LONGEST:
        return False
    if (node := tree(answer)) is not None:
        try:
            Evaluator(0, 20).value(node)
        except Undefined:
            return False
    wanted, given = (
        parse(rf"\boxed{{{side.text}}}", [LatexExtractionConfig()], parsing_timeout=None)
        for side in (gold, answer)
    )
    return bool(wanted and given and verify(wanted, given, timeout_seconds=None))
