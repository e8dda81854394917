"""Second implementations to compare a verifier with. They are no better; where they differ, look.

`math`: Math-Verify alone, as its README uses it. `answer`: the last call, by value or by text.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType

from rewards.schema import Item

Reference = Callable[[Item], bool]
_BLOCK = re.compile(r"<\|tools_prefix\|>(.*?)<\|tools_suffix\|>", re.DOTALL)


def _math(item: Item) -> bool:
    """In the main thread of a process only, where Math-Verify's alarms work."""
    from math_verify import LatexExtractionConfig, parse, verify  # Over a second.

    config = [LatexExtractionConfig(boxed_match_priority=0)]
    wanted = parse(f"\\boxed{{{item.gold}}}", extraction_config=config)
    return bool(verify(wanted, parse(str(item.response), extraction_config=config)))


def _answer(item: Item) -> bool:
    assert isinstance(item.gold, list)
    calls = json.loads(_BLOCK.findall(str(item.response))[-1])
    return _same(str(item.gold[0]), calls[0]["display_answers"]["answers"][0])


def _same(gold: str, answer: str) -> bool:
    try:
        return Decimal(gold) == Decimal(answer.replace("\N{MINUS SIGN}", "-"))
    except InvalidOperation:
        return " ".join(gold.split()).casefold() == " ".join(answer.split()).casefold()


def opinions(verifier: str, items: list[Item]) -> list[bool | None]:
    """What the second implementation says of each item; None where it has nothing to say."""
    return [_judged(REFERENCES[verifier], item) for item in items]


def _judged(reference: Reference, item: Item) -> bool | None:
    try:
        return reference(item)
    except Exception:  # noqa: BLE001 - whatever it trips over, it has no opinion.
        return None


NAMES: Mapping[str, str] = MappingProxyType(
    {"answer": "a comparison by value or text", "math": "Math-Verify"}
)
REFERENCES: Mapping[str, Reference] = MappingProxyType({"answer": _answer, "math": _math})
