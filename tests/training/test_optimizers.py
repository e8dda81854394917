import copy
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from posttrain.training import optimizers
from posttrain.training.ademamix import AdEMAMix
from posttrain.training.muon import Muon
from posttrain.training.optimizers import OptimizerConfig

SPLIT = OptimizerConfig.model_validate({"muon": {"lr": "2e-2"}, "adamw": {"lr": "5e-3"}})
MIX = OptimizerConfig.model_validate({"ademamix": {"lr": "1e-4"}})


class Net(torch.nn.Module):
    """Two hidden matrices, a norm, an embedding and a head, named as in a decoder."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed_tokens = torch.nn.Embedding(5, 4)
        self.up_proj = torch.nn.Linear(4, 8, bias=False)
        self.down_proj = torch.nn.Linear(8, 4, bias=False)
        self.norm = torch.nn.LayerNorm(4)
        self.lm_head = torch.nn.Linear(4, 5, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.down_proj(torch.relu(self.up_proj(self.embed_tokens(ids))))
        logits: torch.Tensor = self.lm_head(self.norm(hidden))
        return logits


def _steps(net: Net, optimizer: optimizers.Optimizers, count: int) -> None:
    for _ in range(count):
        net(torch.tensor([0, 1, 2])).logsumexp(-1).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_every_parameter_has_exactly_one_rule() -> None:
    net = Net()
    built = optimizers.build(net.named_parameters(), SPLIT)
    by_rule = [[p for group in part.param_groups for p in group["params"]] for part in built.parts]
    assert [type(part) for part in built.parts] == [Muon, torch.optim.AdamW]
    assert set(by_rule[0]) == {net.up_proj.weight, net.down_proj.weight}
    assert set(by_rule[0]) | set(by_rule[1]) == set(net.parameters())
    assert not set(by_rule[0]) & set(by_rule[1])


def test_without_muon_the_other_rule_takes_all() -> None:
    built = optimizers.build(Net().named_parameters(), MIX)
    assert [type(part) for part in built.parts] == [AdEMAMix]
    assert len(built.param_groups[0]["params"]) == 6


def test_rates_scale_from_their_peaks() -> None:
    built = optimizers.build(Net().named_parameters(), SPLIT)
    built.scale(0.5)
    built.scale(0.1)
    assert [group["lr"] for group in built.param_groups] == pytest.approx([2e-3, 5e-4])


@pytest.mark.parametrize("config", [SPLIT, MIX])
def test_a_restored_optimizer_continues_bit_equal(config: OptimizerConfig) -> None:
    undisturbed, resumed = Net(), Net()
    first = optimizers.build(undisturbed.named_parameters(), config)
    _steps(undisturbed, first, 3)
    resumed.load_state_dict(undisturbed.state_dict())
    second = optimizers.build(resumed.named_parameters(), config)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.scale(0.5)
    first.scale(0.5)
    for net, optimizer in ((undisturbed, first), (resumed, second)):
        _steps(net, optimizer, 3)
    for one, other in zip(undisturbed.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_state_of_another_split_is_refused() -> None:
    state = optimizers.build(Net().named_parameters(), MIX).state_dict()
    with pytest.raises(ValueError, match="has 1 optimizers, the config 2"):
        optimizers.build(Net().named_parameters(), SPLIT).load_state_dict(state)


@pytest.mark.parametrize(
    "wrong",
    [
        {"muon": {"lr": 1e-2}},
        {"adamw": {"lr": 1e-3}, "ademamix": {"lr": 1e-3}},
        {"adamw": {"lr": -1.0}},
        {"adamw": {"lr": 1e-3, "beta": 0.9}},
    ],
)
def test_wrong_configs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OptimizerConfig.model_validate(wrong)
