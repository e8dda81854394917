"""Supervised fine-tuning on verl's engine: the loss counts the assistant's tokens only.

The result is a function of the starting checkpoint, the rows, the settings and the seed. A run
killed at any instant continues from its training state and ends bit-equal to an undisturbed one.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from verl.workers.utils.losses import sft_loss

from posttrain.data import mixture
from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture, Size, Unit
from posttrain.training import checkpoint, loop, rope, xielu
from posttrain.training.batches import Place, shuffled
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.examples import dialogues, targets
from posttrain.training.loop import Line, Report
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.process import single_process_group, threads
from posttrain.training.rope import ContextConfig
from posttrain.training.schedules import ScheduleConfig

_LAST = 20

LOSS = partial(sft_loss, config=None)
"""verl's: the mean negative log-likelihood of the batch's targets."""


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
        history = loop.train(
            engine, len(plan), partial(_step, engine, plan, sources, _epochs(plan, sources)),
            work=work, save_every=settings.save_every, report=report,
        )  # fmt: skip
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


def _step(
    engine: Engine, plan: Sequence[Sequence[Place]], sources: Mapping[str, Sequence[Rendered]],
    epochs: Sequence[Line], number: int,
) -> Line:  # fmt: skip
    examples = [sources[place.source][place.row] for place in plan[number]]
    line, _ = loop.update(engine, tensors(rows(examples)), LOSS)
    return {"loss": line["loss"], **epochs[number], **line, "targets": sum(map(targets, examples))}


def _epochs(
    plan: Sequence[Sequence[Place]], sources: Mapping[str, Sequence[Rendered]]
) -> list[Line]:
    """How often each source's rows were seen by the end of each step."""
    seen, found = Counter[str](), []
    for batch in plan:
        seen.update(place.source for place in batch)
        found.append({f"epochs.{name}": seen[name] / len(rows) for name, rows in sources.items()})
    return found


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
