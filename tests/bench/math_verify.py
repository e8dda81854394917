"""Math-Verify as its README uses it, in the main thread of a process, where its alarms work."""

import time
from collections.abc import Sequence

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

_CONFIG = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]


def judge(gold: str, response: str) -> bool:
    """Whether the answer in `response` equals `gold`."""
    wanted = parse(f"\\boxed{{{gold}}}", extraction_config=_CONFIG)
    return bool(verify(wanted, parse(response, extraction_config=_CONFIG)))


def seconds(pairs: Sequence[tuple[str, str]]) -> float:
    """Time to judge all of `pairs` of gold and response."""
    start = time.perf_counter()
    for gold, response in pairs:
        judge(gold, response)
    return time.perf_counter() - start
