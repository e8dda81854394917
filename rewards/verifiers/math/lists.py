"""Several things in a row: whether two rows hold the same, in order or in any."""

from collections import Counter
from collections.abc import Callable, Sequence

from rewards.verifiers.math.nodes import Node
from rewards.verifiers.math.sameness import fingerprint

Equal = Callable[[Node, Node], bool]

_PAIRWISE = 60
"""Longest rows whose items are compared one by one where their values do not match exactly."""


def in_order(gold: Sequence[Node], answer: Sequence[Node], equal: Equal) -> bool:
    """Whether each item equals the one at its place."""
    return len(gold) == len(answer) and all(map(equal, gold, answer))


def as_sets(gold: Sequence[Node], answer: Sequence[Node], equal: Equal) -> bool:
    """Whether each item of one is one of the other; what the gold row repeats is repeated.

    By fingerprints first, which takes linear time; those that agree are confirmed.
    """
    if not gold or not answer:
        return len(gold) == len(answer)
    repeats = len(set(gold)) < len(gold)
    if repeats and len(gold) != len(answer):
        return False
    prints = [[fingerprint(node) for node in side] for side in (gold, answer)]
    if None not in prints[0] and None not in prints[1]:
        count = Counter if repeats else set
        if count(prints[0]) == count(prints[1]):
            found = dict(zip(prints[0], gold, strict=True))
            if all(equal(found[key], node) for key, node in zip(prints[1], answer, strict=True)):
                return True
    if max(len(gold), len(answer)) > _PAIRWISE:
        return not repeats and set(gold) == set(answer)
    return _matched(gold, answer, equal, repeats)


def _matched(gold: Sequence[Node], answer: Sequence[Node], equal: Equal, repeats: bool) -> bool:
    if not repeats:
        return all(any(equal(one, other) for other in answer) for one in gold) and all(
            any(equal(one, other) for one in gold) for other in answer
        )
    rest = list(answer)
    for one in gold:
        found = next((at for at, other in enumerate(rest) if equal(one, other)), None)
        if found is None:
            return False
        del rest[found]
    return not rest
