"""DPO on verl's engine: a batch's gradient is that of its mean loss, however it is cut into rows.

The result is a function of the starting checkpoint, the pairs, the settings and the seed.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from posttrain.data.pairs import Groups, read_pairs
from posttrain.objectives.completions import Completions
from posttrain.objectives.config import DPOConfig
from posttrain.objectives.dpo import prefer
from posttrain.training import preference, reference
from posttrain.training.batches import Place
from posttrain.training.completions import summed
from posttrain.training.loop import Line, Report
from posttrain.training.policy import Policy
from posttrain.training.preference import Settings
from posttrain.training.reference import Ahead

_LAST = 20


@dataclass(frozen=True)
class Limits:
    """The longest side in tokens (without it, the context), and the share that may be left out."""

    length: int | None
    drop_at_most: float

    def read(self, data: Mapping[str, Path], policy: Policy) -> dict[str, Groups]:
        """The usable pairs of each file; ValueError if `length` is beyond the policy's context."""
        if self.length is not None and self.length > policy.context:
            raise ValueError(
                f"length {self.length} is beyond the checkpoint's context {policy.context}"
            )
        longest = self.length or policy.context
        return {
            name: read_pairs(path, policy.chat, longest, self.drop_at_most)
            for name, path in data.items()
        }


@dataclass(frozen=True)
class Objective:
    """The loss of pairs, whose sides share a row."""

    config: DPOConfig
    together: int = 2

    def columns(self, places: Sequence[Place]) -> dict[str, list[float]]:
        """Nothing beside the reference's values."""
        return {}

    def loss(self, completions: int) -> Any:
        """The loss for a batch of so many completions, two a pair."""
        return partial(loss, config=self.config, pairs=completions // 2)


def align(
    policy: Policy, data: Mapping[str, Path], limits: Limits, config: DPOConfig,
    settings: Settings, ahead: Ahead | None,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if inputs do not fit."""
    sources = limits.read(data, policy)
    belongs = reference.identity(policy.facts, data)
    known = reference.load(ahead, belongs, sources) if ahead else None
    history, facts = preference.train(
        policy, sources, Objective(config), settings, known,
        backend=backend, work=work, output=output, report=report,
    )  # fmt: skip
    return summary(history) | reference.counts(sources), facts


def loss(
    model_output: Mapping[str, torch.Tensor], data: TensorDict, *, config: DPOConfig, pairs: int,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, list[float]]]:  # fmt: skip
    """This row's share in the mean loss of the batch's `pairs`, and figures of its own pairs.

    verl averages gradients over data-parallel ranks, hence their number as a factor.
    """
    sums = summed(model_output["log_probs"], data)
    lengths = summed(data["loss_mask"], data)
    stacked = torch.stack([sums, data["reference"].values(), lengths.to(sums.dtype)])
    chosen, rejected = (Completions(*stacked[:, side::2]) for side in (0, 1))
    preferred = prefer(chosen, rejected, config)
    figures = {
        "accuracy": (preferred.margin > 0).float(), "margin": preferred.margin,
        "drift": (_per_token(chosen).abs() + _per_token(rejected).abs()) / 2,
    }  # fmt: skip
    sides = (("chosen", chosen, preferred.chosen), ("rejected", rejected, preferred.rejected))
    for side, completions, reward in sides:
        figures |= {
            f"{side}.reward": reward, f"{side}.log_prob": completions.policy.detach(),
            f"{side}.log_ratio": _per_token(completions), f"{side}.length": completions.lengths,
        }  # fmt: skip
    told = {name: values.tolist() for name, values in figures.items()}
    return preferred.mean(pairs) * data["dp_size"], told


def _per_token(completions: Completions) -> torch.Tensor:
    return completions.log_ratio.detach() / completions.lengths


def summary(history: Sequence[Line]) -> dict[str, float]:
    """Means over the last steps."""
    names = ("loss", "accuracy", "margin", "chosen.log_ratio", "rejected.log_ratio")
    return {name: statistics.fmean(line[name] for line in history[-_LAST:]) for name in names}
