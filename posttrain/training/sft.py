"""Supervised fine-tuning on verl's engine: the loss counts the assistant's tokens only.

The result is a function of the starting checkpoint, the rows, the settings and the seed. A run
killed at any instant continues from its training state and ends bit-equal to an undisturbed one;
on another number of ranks it ends equal up to rounding. Work of another plan is refused.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from verl.workers.utils.losses import sft_loss

from posttrain.data import splits
from posttrain.data.drift import Watch
from posttrain.data.mixture import Mixture
from posttrain.data.packing import PackingConfig
from posttrain.training import (
    checkpoint,
    drawing,
    freezing,
    keeping,
    loop,
    ranks,
    rope,
    state,
    xielu,
)
from posttrain.training.course import Course, Way
from posttrain.training.drawing import Plan, Sources
from posttrain.training.engine import ROW, Engine, Precision, rows, tensors
from posttrain.training.loop import Line, Report
from posttrain.training.movement import Movement
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.pace import Pace, flops_of
from posttrain.training.process import process_group, single_process_group, threads
from posttrain.training.resumption import same_plan
from posttrain.training.rope import ContextConfig
from posttrain.training.schedules import ScheduleConfig

_LAST = 20
_MOVES_WITHIN = 5
"""Steps with a rate above zero by which weights must have moved."""

LOSS = partial(sft_loss, config=None)
"""verl's: the mean negative log-likelihood of the batch's targets."""


@dataclass(frozen=True)
class Settings:
    """What decides the result beside data and checkpoint, and how the run is carried out.

    `weights` is the type that weights and optimizer are held in, the checkpoint's unless stated.
    """

    steps: int
    batch: int
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    context: ContextConfig | None
    mixture: Mixture
    seed: int
    threads: int
    save_every: int
    packing: PackingConfig | None = None
    ranks: int = 1
    sequence_parallel: int = 1
    compute: Precision | None = None
    weights: Precision | None = None
    freeze: tuple[str, ...] = ()
    mask_tokens: tuple[str, ...] = ()
    peak_flops: float | None = None
    keep_every: int | None = None


@dataclass(frozen=True)
class Start:
    """The checkpoint to start from: its artifact's folder and recorded facts."""

    path: Path
    facts: Mapping[str, Any]


def finetune(
    start: Start, data: Mapping[str, Path], settings: Settings,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts.

    ValueError if inputs do not fit; ranks.RankLost if one of several processes dies.
    """
    identity = _identity(start, data, settings)
    same_plan(work / "plan.json", identity, begun=state.begun(work))
    arguments = (start, data, settings, backend, work, output)
    if settings.ranks == 1:
        with single_process_group(backend):
            return _train(*arguments, 0, report)
    found: tuple[dict[str, float], dict[str, Any]]
    found = ranks.run(settings.ranks, member, arguments, report)
    return found


def member(
    start: Start, data: Mapping[str, Path], settings: Settings, backend: str, work: Path,
    output: Path, *, rank: int, ranks: int, rendezvous: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """One of several ranks; they return the same."""
    with process_group(backend, rendezvous, rank, ranks):
        return _train(start, data, settings, backend, work, output, rank, report)


def _train(
    start: Start, data: Mapping[str, Path], settings: Settings, backend: str, work: Path,
    output: Path, rank: int, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    model = _model(start, settings)
    tokenizer = checkpoint.load_tokenizer(start.path, start.facts)
    context = model.config.max_position_embeddings
    sources = drawing.read(data, tokenizer, context, settings.packing, settings.mask_tokens)
    plan = drawing.planned(sources, settings.mixture, settings.seed)
    if not plan:
        raise ValueError("the data is exhausted before one step: give more rows or epochs")
    frozen = freezing.freeze(model, settings.freeze)
    pace = _pace(model, plan, sources, settings.peak_flops)
    with threads(settings.threads):
        engine = Engine(
            model, start.path / "model", settings.optimizer, settings.schedule, len(plan), backend,
            compute=settings.compute, sequence_parallel=settings.sequence_parallel,
        )  # fmt: skip
        keep = partial(_keep, engine, tokenizer, work, rank)
        steps = _Steps(engine, plan, sources, settings, rank, keep)
        history = loop.train(
            engine, len(plan), steps.take,
            work=work, save_every=settings.save_every, report=report, beside=steps.course,
            pace=pace,
        )  # fmt: skip
        trained = engine.trained_model()
    freezing.check(trained, frozen)
    counts = {"steps": len(plan), "frozen": sum(each.numel() for each in frozen.values())}
    facts = steps.course.facts() | counts | drawing.seen(plan, sources)
    if rank == 0:
        facts |= checkpoint.save_model(trained, tokenizer, output / "model")
        facts["kept"] = keeping.hand_over(work, output)
        _write(output / "metrics.jsonl", history)
    return _summary(history), facts


def _model(start: Start, settings: Settings) -> Any:
    """The starting checkpoint as it is trained: its context and RoPE, and its type."""
    model = checkpoint.load_model(start.path, start.facts)
    if settings.context is not None:
        rope.change(model, settings.context)
    xielu.quicken(model)
    if settings.weights is not None:
        kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[settings.weights]
        model.to(kind)
        model.config.dtype = kind
    return model


def _keep(engine: Engine, tokenizer: Any, work: Path, rank: int, step: int) -> None:
    """Keep the model after `step` steps. Every rank calls it; it draws no random number."""
    with torch.random.fork_rng(devices=[]):
        model = engine.trained_model()
    if rank == 0:
        keeping.keep(work, step, model, tokenizer)


def _pace(model: Any, plan: Plan, sources: Sources, peak: float | None) -> Pace:
    flops = flops_of(model.config, sum(each.numel() for each in model.parameters()))
    return Pace(lambda step: flops([len(each.ids) for each in sources.at(plan[step])]), peak)


class _Steps:
    """Takes one step after another; what is to be kept on the way goes to `keep`."""

    def __init__(
        self, engine: Engine, plan: Plan, sources: Sources, settings: Settings, rank: int,
        keep: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.course = Course(_way(settings))
        self._keep, self._every = keep, settings.keep_every
        self._engine, self._plan, self._sources = engine, plan, sources
        self._epochs = drawing.epochs(plan, sources)
        self._unit = settings.mixture.unit
        declared, self._largest = drawing.declared(sources, settings.mixture)
        self._drift, self._told = Watch(declared), 0
        self._share = settings.ranks // settings.sequence_parallel
        self._mine = rank // settings.sequence_parallel
        self._movement, self._moving = Movement(engine.module), 0

    def take(self, number: int) -> Line:
        """Step `number` (from 0)."""
        documents = self._sources.at(self._plan[number])
        line, _ = loop.update(self._engine, tensors(self._rows(documents)), LOSS)
        self._watch(line)
        self._count(number + 1)
        return {
            "loss": line["loss"], **self._epochs[number], **self._shares(number), **line,
            "tokens": drawing.length(documents), "targets": drawing.optimised(documents),
        }  # fmt: skip

    def _shares(self, number: int) -> Line:
        """Each source's share of all that was drawn; tells of one that strays from its own."""
        for step in range(self._told, number + 1):  # Earlier ones, if it goes on from a state.
            given = drawing.drawn(self._plan[step], self._sources, self._unit)
            for stray in self._drift.drawn(given, self._largest):
                print(f"step {step + 1}: {stray}")
        self._told = number + 1
        return {f"share.{name}": share for name, share in self._drift.shares().items()}

    def _count(self, done: int) -> None:
        self.course.done = done
        if self._every and done % self._every == 0 and done < len(self._plan):
            self._keep(done)

    def _rows(self, documents: Sequence[Any]) -> list[list[Any]]:
        if self._share == 1:
            return rows(documents)
        return ranks.shared(documents, self._share, ROW)[self._mine]

    def _watch(self, line: Line) -> None:
        """A run whose steps change nothing is at fault, not at rest."""
        self._moving += line["rate"] > 0 and line["gradient_norm"] > 0
        if self._moving == _MOVES_WITHIN:
            self._movement.check(_MOVES_WITHIN)


def _identity(start: Start, data: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """What decides the result; the number of ranks and what is merely told do not."""
    free = ("ranks", "sequence_parallel", "threads", "save_every", "peak_flops")
    decisive = {name: each for name, each in vars(settings).items() if name not in free}
    return {
        "checkpoint": start.facts["weights_sha256"],
        "data": {name: splits.digest_of(path) for name, path in data.items()},
        "settings": decisive | {"mixture": settings.mixture._asdict()},
    }


def _way(settings: Settings) -> Way:
    """How the run is carried out."""
    return {
        "world_size": settings.ranks, "sequence_parallel": settings.sequence_parallel,
        "threads": settings.threads,
    }  # fmt: skip


def _summary(history: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The loss over the last steps, by target."""
    last = history[-_LAST:]
    total = sum(line["targets"] for line in last)
    return {"loss": sum(line["loss"] * line["targets"] for line in last) / total}


def _write(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in history), encoding="utf-8")
