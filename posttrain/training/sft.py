"""Supervised fine-tuning on verl's engine: the loss counts the assistant's tokens only.

The result is a function of the starting checkpoint, the rows, the settings and the seed. A run
killed at any instant continues from its training state and ends bit-equal to an undisturbed one.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch
from verl.workers.utils.losses import sft_loss

from posttrain.data import mixture
from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture, Size, Unit
from posttrain.training import checkpoint, rope, xielu
from posttrain.training.batches import Place, shuffled
from posttrain.training.checkpoint import TrainingState
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.examples import dialogues, targets
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.process import single_process_group, threads
from posttrain.training.rope import ContextConfig
from posttrain.training.schedules import ScheduleConfig

_LAST = 20

LOSS = partial(sft_loss, config=None)
"""verl's: the mean negative log-likelihood of the batch's targets."""

Report = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with its number (from 1), the number of steps and metrics."""


@dataclass(frozen=True)
class Settings:
    """What decides the result beside data and checkpoint, and how often state is saved."""

    steps: int
    batch: int
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    context: ContextConfig | None
    mixture: Mixture
    seed: int
    threads: int
    save_every: int


@dataclass(frozen=True)
class Start:
    """The checkpoint to start from: its artifact's folder and recorded facts."""

    path: Path
    facts: Mapping[str, Any]


def finetune(
    start: Start, data: Mapping[str, Path], settings: Settings,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if inputs do not fit."""
    model = checkpoint.load_model(start.path, start.facts)
    tokenizer = checkpoint.load_tokenizer(start.path, start.facts)
    if settings.context is not None:
        rope.change(model, settings.context)
    xielu.quicken(model)
    longest = model.config.max_position_embeddings
    sources = {name: dialogues(path, tokenizer, longest) for name, path in data.items()}
    plan = _plan(sources, settings)
    if not plan:
        raise ValueError("the data is exhausted before one step: give more rows or epochs")
    with threads(settings.threads), single_process_group(backend):
        engine = Engine(
            model, start.path / "model", settings.optimizer, settings.schedule,
            len(plan), backend,
        )  # fmt: skip
        history = _train(engine, plan, sources, settings, work, report)
        facts = checkpoint.save_model(engine.trained_model(), tokenizer, output / "model")
    _write(output / "metrics.jsonl", history)
    facts |= {"steps": len(plan), "world_size": 1, "threads": settings.threads}
    return _summary(history), facts | _seen(plan, sources)


def _plan(sources: Mapping[str, Sequence[Rendered]], settings: Settings) -> list[list[Place]]:
    """The places of each step; fewer steps than asked for if the data is exhausted before."""
    mixed = settings.mixture
    counts = {name: _sizes(rows, mixed.unit) for name, rows in sources.items()}
    sizes = {name: Size(len(each), sum(each)) for name, each in counts.items()}
    supply = {name: mixture.supply(part, sizes[name].rows) for name, part in mixed.parts.items()}
    for each in mixture.forecast(mixed, sizes).sources:
        print(mixture.told(each, mixed.parts[each.source], mixed.on_exhausted))
    places = shuffled(
        counts, mixture.shares(mixed.parts, sizes), settings.seed,
        None if mixed.on_exhausted == "repeat" else supply,
        reweight=mixed.on_exhausted == "reweight",
    )  # fmt: skip
    batches = (list(islice(places, settings.batch)) for _ in range(settings.steps))
    return list(takewhile(lambda batch: len(batch) == settings.batch, batches))


def _sizes(rows: Sequence[Rendered], unit: Unit) -> list[int]:
    return [targets(each) for each in rows] if unit == "tokens" else [1] * len(rows)


def _train(
    engine: Engine, plan: Sequence[Sequence[Place]], sources: Mapping[str, Sequence[Rendered]],
    settings: Settings, work: Path, report: Report,
) -> list[dict[str, float]]:  # fmt: skip
    """Take the steps that the training state in `work` lacks; returns a line for every step."""
    history = _restore(engine, work)
    seen = Counter(place.source for batch in plan[: len(history)] for place in batch)
    for step in range(len(history), len(plan)):
        examples = [sources[place.source][place.row] for place in plan[step]]
        history.append({"step": step + 1, **_step(engine, examples)})
        seen.update(place.source for place in plan[step])
        # First what a view shows first.
        shown = {"loss": history[-1]["loss"], **_epochs(seen, sources)}
        report(step + 1, len(plan), shown | history[-1])
        if (step + 1) % settings.save_every == 0 and step + 1 < len(plan):
            _save(engine, history, work)
    return history


def _epochs(seen: Mapping[str, int], sources: Mapping[str, Sequence[Rendered]]) -> dict[str, float]:
    """How often each source's rows were seen."""
    return {f"epochs.{name}": seen.get(name, 0) / len(rows) for name, rows in sources.items()}


def _step(engine: Engine, examples: Sequence[Rendered]) -> dict[str, float]:
    rate = engine.lr_scheduler.factor
    with engine.train_mode():
        out = engine.train_batch(tensors(rows(examples)), LOSS)
    engine.lr_scheduler_step()
    loss, norm = sum(out["loss"]), float(out["metrics"]["grad_norm"])
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise ValueError(
            f"loss {loss} with gradient norm {norm}: training diverged; lower the learning rate"
        )
    counted = sum(map(targets, examples))
    return {"loss": loss, "gradient_norm": norm, "rate": rate, "targets": counted}


def _save(engine: Engine, history: list[dict[str, float]], work: Path) -> None:
    state = TrainingState(
        len(history), engine.module.state_dict(), engine.optimizer.state_dict(),
        torch.get_rng_state(), history,
    )  # fmt: skip
    checkpoint.save_state(work, state)


def _restore(engine: Engine, work: Path) -> list[dict[str, float]]:
    """Put the training state of `work` into the engine; returns the metrics of steps done."""
    state = checkpoint.load_state(work)
    if state is None:
        return []
    engine.module.load_state_dict(state.model)
    engine.optimizer.load_state_dict(state.optimizer)
    engine.lr_scheduler.seek(state.step)
    torch.set_rng_state(state.random)
    return state.history


def _seen(
    plan: Sequence[Sequence[Place]], sources: Mapping[str, Sequence[Rendered]]
) -> dict[str, Any]:
    """What the run trained on: tokens read, tokens optimised, and each source's share of them."""
    tokens, counts, seen = 0, dict.fromkeys(sources, 0), Counter[str]()
    for place in (place for batch in plan for place in batch):
        example = sources[place.source][place.row]
        tokens += len(example.ids)
        counts[place.source] += targets(example)
        seen[place.source] += 1
    total = sum(counts.values())
    return {
        "tokens": tokens,
        "optimised_tokens": total,
        "shares": {name: count / total for name, count in counts.items()},
        "epochs": {name: seen[name] / len(rows) for name, rows in sources.items()},
    }


def _summary(history: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The loss over the last steps, by target."""
    last = history[-_LAST:]
    total = sum(line["targets"] for line in last)
    return {"loss": sum(line["loss"] * line["targets"] for line in last) / total}


def _write(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in history), encoding="utf-8")
