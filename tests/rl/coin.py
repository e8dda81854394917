"""A verifier for plumbing: a coin flipped by the response, so that groups of samples differ."""

import hashlib

from pydantic import TypeAdapter

from rewards.schema import Item, Verdict, scored
from rewards.verifiers import Canary

RUNS = "inline"
GOLD = PARAMETERS = TypeAdapter(object)
DISTRIBUTIONS = ()


def verify(item: Item) -> Verdict:
    """1 for half of all responses, 0 for the others."""
    return scored(item, float(hashlib.sha256((item.response or "").encode()).digest()[0] % 2))


CANARIES = [
    Canary(item=Item(id="one", verifier="coin", response="c"), score=0.0),
]
