"""Self-distillation from follow-ups on verl's engine (Buening et al. 2026, arXiv 2603.12273).

A token's signal is by how much its log-probability rises once the model has read what the user said
next; both are the current model's. The result is a function of the starting checkpoint, the
conversations, the settings and the seed; a run that is killed ends bit-equal to one that was not.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, cast

import torch
from tensordict import TensorDict
from torch.nn.utils.rnn import pad_sequence

from posttrain.data.mixture import Mixture
from posttrain.data.pairs import Groups
from posttrain.objectives.config import FollowUpConfig
from posttrain.objectives.followups import counted, offline, signal
from posttrain.objectives.reduction import row_lengths, row_sums, share
from posttrain.training import checkpoint, loop, preference, reference
from posttrain.training.completions import token_log_probs
from posttrain.training.drawing import Plan
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.guards import UpdatesConfig
from posttrain.training.hindsight import FollowedUp
from posttrain.training.loop import Line, Report
from posttrain.training.movement import Movement
from posttrain.training.policy import Policy
from posttrain.training.process import single_process_group, threads

_LAST = 20
_MOVES_WITHIN = 10
"""Steps by which some weight must have moved."""


@dataclass(frozen=True)
class Settings:
    """What decides the result beside the data and the checkpoint."""

    updates: UpdatesConfig
    objective: FollowUpConfig
    mixture: Mixture
    seed: int


def distil(
    policy: Policy, sources: Mapping[str, Groups], settings: Settings,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if the data do not fit."""
    asked, plan = settings.updates, preference.planned(sources, settings.mixture, settings.seed)
    with threads(asked.threads), single_process_group(backend):
        engine = Engine(
            policy.model, policy.folder, asked.optimizer, asked.schedule, len(plan), backend
        )
        steps = _Steps(engine, plan, sources, settings.objective, Movement(engine.module))
        history = loop.train(
            engine, len(plan), steps.take, work=work, save_every=asked.save_every, report=report
        )
        facts = checkpoint.save_model(engine.trained_model(), policy.tokenizer, output / "model")
    preference.write(output / "metrics.jsonl", history)
    facts |= {"steps": len(plan), "world_size": 1, "threads": asked.threads}
    facts |= {"optimised_tokens": int(sum(line["targets"] for line in history))}
    return summary(history) | reference.counts(sources), facts


@dataclass(frozen=True)
class _Steps:
    engine: Engine
    plan: Plan
    sources: Mapping[str, Groups]
    config: FollowUpConfig
    movement: Movement

    def take(self, number: int) -> Line:
        """Step `number` (from 0)."""
        found = [preference.group(self.sources, at) for at in self.plan[number]]
        batch = cast(Sequence[FollowedUp], found)
        hindsight = token_log_probs(self.engine, [each.told for each in batch])
        packed = rows([each.plain for each in batch])
        ends = [0, *accumulate(map(len, packed))]
        told = [hindsight[start:end] for start, end in pairwise(ends)]
        line, metrics = loop.update(
            self.engine, tensors(packed),
            partial(loss, hindsight=told, config=self.config, completions=len(batch)),
        )  # fmt: skip
        if number + 1 == min(_MOVES_WITHIN, len(self.plan)):
            self.movement.check(number + 1)
        means = {name: statistics.fmean(metrics[name]) for name in _FIGURES}
        return {"loss": line["loss"], **means, **line, "targets": sum(metrics["length"])}


_FIGURES = ("gain", "gain_size", "log_prob", "length")


def loss(
    model_output: Mapping[str, torch.Tensor], data: TensorDict, *,
    hindsight: Sequence[Sequence[Sequence[float]]], config: FollowUpConfig, completions: int,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, list[float]]]:  # fmt: skip
    """This row's share in the mean loss of the batch's `completions`, and figures of its own.

    `hindsight` are, of each row, the log-probabilities of each document's targets with the
    follow-up told. Figures are of each completion: mean and mean size of the signal, and the mean
    log-probability, in nats per token that counts; `length` is how many do.
    """
    told = hindsight[int(data["row"].item())]
    values = model_output["log_probs"].values()[:-1][data["loss_mask"].values()[1:].bool()]
    spans = torch.split(values, [len(each) for each in told])
    ours = pad_sequence(list(spans), batch_first=True)
    theirs = pad_sequence([ours.new_tensor(each) for each in told], batch_first=True)
    lengths = torch.tensor([[len(each)] for each in told], device=ours.device)
    mask = torch.arange(ours.shape[1], device=ours.device) < lengths
    losses = offline(ours, theirs, mask, config)
    counts, own = counted(mask, config), ours.detach()
    gain, length = signal(own, theirs), row_lengths(counts)
    sums = {"gain": gain, "gain_size": gain.abs(), "log_prob": own}
    figures = {name: row_sums(each, counts) / length for name, each in sums.items()}
    figures["length"] = length
    metrics = {name: each.tolist() for name, each in figures.items()}
    return share(losses, completions) * data["dp_size"], metrics


def summary(history: Sequence[Line]) -> dict[str, float]:
    """Means over the last steps."""
    names = ("loss", "gain", "gain_size", "log_prob")
    return {name: statistics.fmean(line[name] for line in history[-_LAST:]) for name in names}
