"""Optimizer steps that survive a kill at any instant, on one rank or several.

A run continued from its training state ends bit-equal to an undisturbed one, if a step's batch is
a function of its number. A loss that is not finite ends the run. Every rank calls what is here.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from tensordict import TensorDict

from posttrain.training import state
from posttrain.training.engine import Engine
from posttrain.training.pace import Pace

Report = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with its number (from 1), the number of steps and metrics."""

Line = dict[str, float]
"""The metrics of a step, those first that a view shows first."""


class Stateful(Protocol):
    """What changes with the steps beside the model: a teacher that follows it, say."""

    def state_dict(self) -> Mapping[str, Any]:
        """Its state, of tensors and plain values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""


def train(
    engine: Engine, steps: int, step: Callable[[int], Line],
    *, work: Path, save_every: int, report: Report, beside: Stateful | None = None,
    pace: Pace | None = None,
) -> list[Line]:  # fmt: skip
    """Take the steps, numbered from 0, that the state in `work` lacks; returns a line for each.

    `beside` is saved and restored with the engine. What is reported has the run's pace too, which
    is no part of the result.
    """
    history = _restore(engine, beside, work)
    pace = pace or Pace()
    pace.begin()
    for number in range(len(history), steps):
        line = step(number)
        history.append({"step": number + 1, **line})
        report(number + 1, steps, line | pace.after(number, steps, line))
        if (number + 1) % save_every == 0 and number + 1 < steps:
            _save(engine, beside, history, work)
    return history


def update(engine: Engine, batch: TensorDict, loss: Callable[..., Any]) -> tuple[Line, Any]:
    """Take one optimizer step; returns its line and the metrics of `loss`, by micro-batch.

    The line is the same on all ranks, the metrics are of this rank's documents.
    ValueError if the loss or its gradient is not finite.
    """
    rate = engine.lr_scheduler.factor
    with engine.train_mode():
        out = engine.train_batch(batch, loss)
    engine.lr_scheduler_step()
    value, norm = _mean(sum(out["loss"])), engine.gradient_norm
    if not (math.isfinite(value) and math.isfinite(norm)):
        raise ValueError(
            f"loss {value} with gradient norm {norm}: training diverged; lower the learning rate"
        )
    return {"loss": value, "gradient_norm": norm, "rate": rate}, out["metrics"]


def _mean(value: float) -> float:
    """Over the ranks: each has its share of the loss times their number."""
    if (ranks := dist.get_world_size()) == 1:
        return value
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / ranks


def _save(engine: Engine, beside: Stateful | None, history: list[Line], work: Path) -> None:
    rest = {
        "history": history, "random": torch.get_rng_state(),
        "beside": beside.state_dict() if beside else {},
    }  # fmt: skip
    state.save(work, len(history), engine.module, engine.optimizer, rest)


def _restore(engine: Engine, beside: Stateful | None, work: Path) -> list[Line]:
    """Put the training state of `work` into the engine; returns the lines of the steps done."""
    rest = state.load(work, engine.module, engine.optimizer)
    if rest is None:
        return []
    history: list[Line] = rest["history"]
    engine.lr_scheduler.seek(len(history))
    torch.set_rng_state(rest["random"])
    if beside:
        beside.load_state_dict(rest["beside"])
    return history
