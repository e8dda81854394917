"""QRPO on verl's engine: scored completions of the reference, regressed onto its optimal policy.

A completion's reward is its quantile among the scores of its prompt's completions, which the
reference made. A batch's gradient is that of its mean loss, however it is cut into rows.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from tensordict import TensorDict

from posttrain.data.pairs import Groups
from posttrain.data.scored import Scored
from posttrain.objectives.completions import Completions
from posttrain.objectives.config import QRPOConfig
from posttrain.objectives.qrpo import quantiles, regress
from posttrain.training import preference, reference
from posttrain.training.batches import Place
from posttrain.training.completions import summed
from posttrain.training.loop import Line, Report
from posttrain.training.policy import Policy
from posttrain.training.preference import Settings
from posttrain.training.reference import Known

_LAST = 20


@dataclass(frozen=True)
class Objective:
    """The loss of completions, each on its own; `quantiles` are those of each source's groups."""

    config: QRPOConfig
    quantiles: Mapping[str, Sequence[Sequence[float]]]
    together: int = 1

    def columns(self, places: Sequence[Place]) -> dict[str, list[float]]:
        """The quantile of each completion."""
        return {"quantile": [value for at in places for value in self.quantiles[at.source][at.row]]}

    def loss(self, completions: int) -> Any:
        """The loss for a batch of so many completions."""
        return partial(loss, config=self.config, completions=completions)


def align(
    policy: Policy, tracks: Mapping[str, Groups], config: QRPOConfig, settings: Settings,
    known: Known | None, *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if inputs do not fit."""
    ranks = {name: ranked(groups) for name, groups in tracks.items()}
    history, facts = preference.train(
        policy, tracks, Objective(config, ranks), settings, known,
        backend=backend, work=work, output=output, report=report,
    )  # fmt: skip
    return summary(history) | reference.counts(tracks), facts


def ranked(groups: Groups) -> list[list[float]]:
    """Of each group, the quantile of each completion among its prompt's scores."""
    return [
        quantiles(
            torch.tensor(each.scores, dtype=torch.float64),
            torch.tensor([each.references] * len(each.scores), dtype=torch.float64),
        ).tolist()
        for each in cast(Sequence[Scored], groups.groups)
    ]  # fmt: skip


def loss(
    model_output: Mapping[str, torch.Tensor], data: TensorDict, *, config: QRPOConfig,
    completions: int, dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, list[float]]]:  # fmt: skip
    """This row's share in the mean loss of the batch's `completions`, and figures of its own.

    verl averages gradients over data-parallel ranks, hence their number as a factor.
    """
    sums = summed(model_output["log_probs"], data)
    lengths = summed(data["loss_mask"], data).to(sums.dtype)
    given = Completions(sums, data["reference"].values(), lengths)
    regressed = regress(given, data["quantile"].values(), config)
    per_token = given.log_ratio.detach() / given.lengths
    figures = {
        "target": regressed.target, "reward": regressed.reward,
        "quantile": data["quantile"].values(), "drift": per_token.abs(), "log_ratio": per_token,
        "log_prob": given.policy.detach(), "length": given.lengths,
    }  # fmt: skip
    told = {name: values.tolist() for name, values in figures.items()}
    return regressed.mean(completions) * data["dp_size"], told


def summary(history: Sequence[Line]) -> dict[str, float]:
    """Means over the last steps."""
    names = ("loss", "target", "reward", "log_ratio")
    return {name: statistics.fmean(line[name] for line in history[-_LAST:]) for name in names}
