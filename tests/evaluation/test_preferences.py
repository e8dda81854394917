import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.pairs import render_pair
from posttrain.evaluation import preferences
from posttrain.evaluation.measuring import evaluate
from posttrain.evaluation.preferences import compare, log_probs
from posttrain.evaluation.suites import Preference
from tests.evaluation.tiny_model import chat_format, model

SUITE = Preference(kind="preference", data="pairs.holdout")
ROWS = tiny.pairs(3, 12, holdout=True)


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return chat_format()


@pytest.mark.parametrize("logits", [2**28, 900 * 150, 1], ids=["all", "some", "each alone"])
def test_a_batch_gives_what_each_document_gives_alone(
    chat: ChatFormat, logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preferences, "_LOGITS", logits)
    policy, documents = (
        model(len(chat.tokenizer)),
        [side for row in ROWS for side in render_pair(chat, row).sides],
    )
    alone = []
    for each in documents:
        found = policy(torch.tensor([each.ids])).logits[0, :-1].log_softmax(-1)
        given = found.gather(-1, torch.tensor(each.ids[1:])[:, None])[:, 0]
        alone.append(float((given * torch.tensor(each.mask[1:])).sum().detach()))
    assert log_probs(policy, documents) == pytest.approx(alone, rel=1e-5)


def test_accuracy_is_how_often_the_chosen_side_is_likelier(chat: ChatFormat) -> None:
    policy = model(len(chat.tokenizer))
    sides = compare(policy, [render_pair(chat, row) for row in ROWS])
    found = evaluate(policy, chat, SUITE, ROWS, seed=0)
    assert found["accuracy"] == sum(chosen > rejected for chosen, rejected in sides) / len(ROWS)
    assert found["n"] == len(ROWS)
    swapped = [row | {"chosen": row["rejected"], "rejected": row["chosen"]} for row in ROWS]
    other = evaluate(policy, chat, SUITE, swapped, seed=0)
    assert other["accuracy"] == pytest.approx(1 - found["accuracy"])
    assert other["margin"] == pytest.approx(-found["margin"])
    assert other["chosen_length"] == found["rejected_length"]
    assert set(found) >= {"accuracy.sum", "accuracy.max", "standard_error"}


def test_a_pair_that_cannot_be_compared_is_named(chat: ChatFormat) -> None:
    alike = ROWS[1] | {"chosen": ROWS[1]["rejected"]}
    with pytest.raises(ValueError, match="held-out pair 2 is identical"):
        evaluate(model(len(chat.tokenizer)), chat, SUITE, [ROWS[0], alike], seed=0)


@given(st.lists(st.integers(1, 40), max_size=200), st.integers(1, 300))
def test_batches_keep_the_order_and_hold_no_more_than_they_may(
    lengths: list[int], most: int
) -> None:
    documents = [Rendered([0] * length, [0] * length) for length in sorted(lengths)]
    order = list(range(len(documents)))
    found = list(preferences._batches(order, documents, most))
    assert [index for batch in found for index in batch] == order
    for batch in found:
        longest = max(len(documents[index].ids) for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= most
        assert len(batch) <= 64
