import pytest
import torch

from posttrain.data.chat import Rendered
from posttrain.training import checkpoint
from posttrain.training.completions import log_probs, summed
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.process import single_process_group
from posttrain.training.schedules import ScheduleConfig
from posttrain.training.sft import Start

CONSTANT = ScheduleConfig.model_validate({"constant": {}})
ADAMW = OptimizerConfig.model_validate({"adamw": {"lr": 1e-3}})


def some_documents(count: int, seed: int = 0) -> list[Rendered]:
    draw = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        size = int(torch.randint(5, 40, (1,), generator=draw))
        ids = [1, *torch.randint(20, 400, (size,), generator=draw).tolist()]
        found.append(Rendered(ids, [0, 0, *[1] * (size - 1)]))
    return found


def test_a_sum_is_over_one_document() -> None:
    batch = tensors([[Rendered([1, 2], [0, 1]), Rendered([1, 2, 3], [0, 1, 1])]], {"worth": [5, 7]})
    values = torch.nested.nested_tensor_from_jagged(
        torch.tensor([1.0, 10, 100, 1000, 10000]), batch["input_ids"].offsets()
    )
    assert summed(values, batch).tolist() == [11, 11100]
    assert summed(batch["loss_mask"], batch).tolist() == [1, 2]
    assert batch["worth"].values().tolist() == [5, 7]


def test_what_belongs_together_shares_a_row() -> None:
    sizes = (600, 300, 600, 500, 10, 10, 2000, 2000)
    documents = [Rendered([1] * n, [0] * n) for n in sizes]
    found = [[len(each.ids) for each in row] for row in rows(documents, together=2)]
    assert found == [[600, 300], [600, 500], [10, 10], [2000, 2000]]


def test_log_probabilities_are_the_models_own_in_any_row(base: Start) -> None:
    documents = some_documents(6)
    plain = checkpoint.load_model(base.path, base.facts)
    wanted = []
    for each in documents:
        logits = plain(torch.tensor([each.ids])).logits[0, 1:-1].log_softmax(-1)
        wanted.append(float(logits.gather(-1, torch.tensor(each.ids[2:])[:, None]).sum().detach()))
    with single_process_group("cpu"):
        model = checkpoint.load_model(base.path, base.facts)
        engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 1, "cpu")
        for together in (1, 2):
            assert log_probs(engine, documents, together) == pytest.approx(wanted, rel=1e-5)
        assert log_probs(engine, []) == []
