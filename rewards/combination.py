"""Composite items: taken apart into single checks, whose verdicts become one.

A failed check makes the verdict `failed`, else one that abstained makes it `abstained`: what is not
known is never part of a score.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import cast

from rewards.schema import COMPOSITE, Combination, Composite, Entry, Item, Verdict


def expanded(entries: Sequence[Entry]) -> Sequence[Item]:
    """The single checks of `entries`, in order; the same object if there is no composite one."""
    if all(isinstance(entry, Item) for entry in entries):
        return cast(Sequence[Item], entries)
    parts = ([entry] if isinstance(entry, Item) else _checks(entry) for entry in entries)
    return list(chain.from_iterable(parts))


def _checks(composite: Composite) -> list[Item]:
    return [
        Item(
            id=composite.id, response=composite.response, answers=composite.answers,
            verifier=check.verifier, gold=check.gold, parameters=check.parameters,
        )
        for check in composite.checks
    ]  # fmt: skip


def combined(entries: Sequence[Entry], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A verdict for each of `entries`, from those on their single checks."""
    given = iter(verdicts)
    return [
        next(given)
        if isinstance(entry, Item)
        else combination(entry, list(islice(given, len(entry.checks))))
        for entry in entries
    ]


def combination(composite: Composite, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on `composite` from those on its checks, in their order.

    The reason is that of the check that decides the status; of a score it is `unverifiable` if a
    check is, else that of the lowest one.
    """
    decisive = _decisive(verdicts)
    scores = [verdict.score for verdict in verdicts]
    feedback = [verdict.feedback for verdict in verdicts if verdict.feedback]
    return Verdict(
        id=composite.id,
        verifier=COMPOSITE,
        status=decisive.status,
        score=_score(composite, scores) if decisive.status == "scored" else None,
        parts={v.verifier: v.score for v in verdicts if v.score is not None} or None,
        feedback=" ".join(feedback) or None,
        reason=decisive.reason,
        detail=None if decisive.detail is None else f"{decisive.verifier}: {decisive.detail}",
        attempt=max(verdict.attempt for verdict in verdicts),
        elapsed_ms=sum(verdict.elapsed_ms for verdict in verdicts),
    )


def _decisive(verdicts: Sequence[Verdict]) -> Verdict:
    def rank(verdict: Verdict) -> tuple[bool, bool, bool, float]:
        return (
            verdict.status != "failed", verdict.status != "abstained",
            verdict.reason != "unverifiable", verdict.score or 0.0,
        )  # fmt: skip

    return min(verdicts, key=rank)


def _mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    pairs = zip(scores, weights, strict=True)
    mean = math.fsum(score * weight for score, weight in pairs) / math.fsum(weights)
    return min(max(mean, min(scores)), max(scores))  # Rounding leads beyond them.


_RULES: Mapping[Combination, Callable[[Sequence[float], Sequence[float]], float]] = (
    MappingProxyType(
        {
            "mean": _mean,
            "min": lambda scores, _: min(scores),
            "product": lambda scores, _: math.prod(scores),
            "all": lambda scores, _: float(min(scores) == 1.0),
        }
    )
)


def _score(composite: Composite, scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None]
    assert len(known) == len(scores), "all checks are scored"
    weights = [check.weight for check in composite.checks]
    return min(1.0, _RULES[composite.combine](known, weights))  # Rounding may exceed 1.
