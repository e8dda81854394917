"""Optimizer steps that survive a kill at any instant.

A run continued from its training state ends bit-equal to an undisturbed one, if a step's batch is
a function of its number. A loss that is not finite ends the run.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from posttrain.training import checkpoint
from posttrain.training.checkpoint import TrainingState
from posttrain.training.engine import Engine

Report = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with its number (from 1), the number of steps and metrics."""

Line = dict[str, float]
"""The metrics of a step, those first that a view shows first."""


def train(
    engine: Engine, steps: int, step: Callable[[int], Line],
    *, work: Path, save_every: int, report: Report,
) -> list[Line]:  # fmt: skip
    """Take the steps, numbered from 0, that the state in `work` lacks; returns a line for each."""
    history = _restore(engine, work)
    for number in range(len(history), steps):
        line = step(number)
        history.append({"step": number + 1, **line})
        report(number + 1, steps, line)
        if (number + 1) % save_every == 0 and number + 1 < steps:
            _save(engine, history, work)
    return history


def update(engine: Engine, batch: TensorDict, loss: Callable[..., Any]) -> tuple[Line, Any]:
    """Take one optimizer step; returns its line and the metrics of `loss`, by micro-batch.

    ValueError if the loss or its gradient is not finite.
    """
    rate = engine.lr_scheduler.factor
    with engine.train_mode():
        out = engine.train_batch(batch, loss)
    engine.lr_scheduler_step()
    value, norm = sum(out["loss"]), float(out["metrics"]["grad_norm"])
    if not (math.isfinite(value) and math.isfinite(norm)):
        raise ValueError(
            f"loss {value} with gradient norm {norm}: training diverged; lower the learning rate"
        )
    return {"loss": value, "gradient_norm": norm, "rate": rate}, out["metrics"]


def _save(engine: Engine, history: list[Line], work: Path) -> None:
    state = TrainingState(
        len(history), engine.module.state_dict(), engine.optimizer.state_dict(),
        torch.get_rng_state(), history,
    )  # fmt: skip
    checkpoint.save_state(work, state)


def _restore(engine: Engine, work: Path) -> list[Line]:
    """Put the training state of `work` into the engine; returns the lines of the steps done."""
    state = checkpoint.load_state(work)
    if state is None:
        return []
    engine.module.load_state_dict(state.model)
    engine.optimizer.load_state_dict(state.optimizer)
    engine.lr_scheduler.seek(state.step)
    torch.set_rng_state(state.random)
    return state.history
