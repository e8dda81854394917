"""What a request to a judge says of a charter: always its digest, to the rule judge the rules."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.charter.document import Charter

RULES = "rules"
"""The verifier that judges by a charter's own rules."""


def rules(charter: Charter, ids: Sequence[str] | None) -> dict[str, Any]:
    """The rule judge's parameters for the articles `ids`, or all; ValueError: one has no rule."""
    chosen = charter.chosen(ids)
    if lacking := [article.id for article in chosen if article.rule is None]:
        raise ValueError(
            f"article {lacking[0]} of charter {charter.name} has no rule: ask a judge that reads, "
            "or name the articles that have one"
        )
    articles = [
        {"id": article.id, "rule": json.loads(article.rule.model_dump_json())}
        for article in chosen
        if article.rule is not None
    ]
    return {"charter": charter.reference, "articles": articles}


def reading(charter: Charter, prompt: str) -> Mapping[str, Any]:
    """The parameters of a judge that reads the whole charter and the user's prompt."""
    return {"charter": charter.reference, "prompt": prompt}
