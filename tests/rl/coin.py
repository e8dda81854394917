"""A verifier for plumbing: the score is a coin flipped by the item's id, so that groups differ."""

import hashlib

from rewards.schema import Item, Verdict, scored
from rewards.verifiers import Canary


def verify(item: Item) -> Verdict:
    """1 for half of all ids, 0 for the others."""
    return scored(item, float(hashlib.sha256(item.id.encode()).digest()[0] % 2))


CANARIES = [Canary(item=Item(id="a", verifier="coin", answers=[]), score=0.0)]
