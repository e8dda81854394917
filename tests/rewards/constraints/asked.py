"""How these tests ask: one instruction of one response."""

from typing import Any

from rewards.schema import Item, Verdict
from rewards.verifiers.constraints import verify


def verdict(id: str, kwargs: dict[str, Any], response: str, **parameters: Any) -> Verdict:
    """The verdict on `response` by the one instruction `id`."""
    gold: Any = {"instruction_id": [id], "kwargs": [kwargs]}
    return verify(
        Item(id="i", verifier="constraints", response=response, gold=gold, parameters=parameters)
    )


def follows(id: str, kwargs: dict[str, Any], response: str, **parameters: Any) -> bool:
    """Whether `response` follows it; fails where the verifier does not score."""
    found = verdict(id, kwargs, response, **parameters)
    assert found.status == "scored", found.detail
    return found.score == 1.0
