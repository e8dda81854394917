from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from posttrain.charter import read
from posttrain.data import manners
from posttrain.evaluation.adherence import evaluate, figures, items
from posttrain.evaluation.suites import Adherence
from rewards.schema import Item, failed
from rewards.verifiers import rules
from tests.evaluation.tiny_model import chat_format, model

CHARTER = read(Path("recipes/charters/tiny.md").read_text())
SUITE = Adherence(kind="adherence", data="requests.holdout", charter="manual", max_new_tokens=4)


def judge(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [rules.verify(Item.model_validate(each)).model_dump() for each in asked]


def test_each_article_has_a_figure_and_all_together() -> None:
    texts = ["Thanks for asking. So. Happy to help!", "It is a1. Happy to help!", "definitely"]
    found = figures(judge(items(texts, CHARTER, None)))
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert [found[f"accuracy.{each}"] for each in ("closing", "certainty", "thanks")] == (
        pytest.approx([2 / 3, 2 / 3, 1 / 3])
    )
    assert found["n"] == 3


def test_only_the_articles_of_the_suite_count() -> None:
    texts = ["It is a1. Happy to help!", "It is a1."]
    found = figures(judge(items(texts, CHARTER, ["closing"])))
    assert found["accuracy"] == found["accuracy.closing"] == 0.5
    assert "accuracy.thanks" not in found


def test_a_model_is_measured_on_every_row_and_its_scores_are_kept() -> None:
    chat, kept = chat_format(), []
    rows = manners.requests(0, 6, "usual", holdout=True)
    found = evaluate(model(900), chat, SUITE, rows, CHARTER, seed=1, judge=judge, keep=kept.append)
    assert (found["n"], found["accuracy"]) == (6, 0)
    assert [len(each) for each in kept[0].attempts] == [1] * 6
    assert 1 <= found["mean_length"] <= 4


def test_a_response_that_was_not_judged_stops_the_measurement() -> None:
    def down(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        lost = [failed(Item.model_validate(each), "worker_lost", "gone") for each in asked]
        return [verdict.model_dump() for verdict in lost]

    rows = manners.requests(0, 3, "usual")
    with pytest.raises(RuntimeError, match="3 of 3 responses were not judged: worker_lost: gone"):
        evaluate(model(900), chat_format(), SUITE, rows, CHARTER, seed=1, judge=down)
