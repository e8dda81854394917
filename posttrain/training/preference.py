"""Training on groups of completions: which ones, the reference's values, and what must hold.

Always holds: the groups of every step are fixed before the first; a step's reference is a function
of the settings and the steps before it. A run killed at any instant continues from its training
state and ends bit-equal to an undisturbed one.
"""

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture
from posttrain.data.pairs import Group, Groups
from posttrain.store import write_durably
from posttrain.training import checkpoint, drawing, loop
from posttrain.training.batches import Place
from posttrain.training.completions import log_probs
from posttrain.training.drawing import Plan
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.guards import GuardsConfig, StepsConfig
from posttrain.training.loop import Line, Report
from posttrain.training.movement import Movement
from posttrain.training.policy import Policy
from posttrain.training.process import single_process_group, threads
from posttrain.training.reference import Known


@dataclass(frozen=True)
class Settings:
    """What decides the result beside objective, data and checkpoint."""

    steps: StepsConfig
    mixture: Mixture
    seed: int


class Objective(Protocol):
    """What is made of a step's completions."""

    @property
    def together(self) -> int:
        """Completions that share a row."""

    def columns(self, places: Sequence[Place]) -> dict[str, list[float]]:
        """What the loss needs of each completion of `places` beside the reference's value."""

    def loss(self, completions: int) -> Callable[..., Any]:
        """verl's loss for a batch of so many completions; its metrics are a list, one for each
        completion or group, and among them is `drift`.
        """


def train(
    policy: Policy, sources: Mapping[str, Groups], objective: Objective, settings: Settings,
    known: Known | None, *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[list[Line], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns a line for each step, and facts."""
    asked, plan = settings.steps, planned(sources, settings.mixture, settings.seed)
    with threads(asked.threads), single_process_group(backend):
        engine = Engine(
            policy.model, policy.folder, asked.optimizer, asked.schedule, len(plan), backend
        )
        references = References(
            engine, plan, sources, work, together=objective.together,
            every=asked.refresh_every, known=known,
        )  # fmt: skip
        steps = _Steps(engine, plan, sources, objective, references, asked.guards)
        history = loop.train(
            engine, len(plan), steps.take, work=work, save_every=asked.save_every, report=report
        )
        facts = checkpoint.save_model(engine.trained_model(), policy.tokenizer, output / "model")
    write(output / "metrics.jsonl", history)
    return history, facts | {
        "steps": len(plan), "world_size": 1, "threads": asked.threads,
        "reference": "live" if known is None else "ahead",
        "optimised_tokens": int(sum(line["targets"] for line in history)),
    }  # fmt: skip


def planned(sources: Mapping[str, Groups], mixed: Mixture, seed: int) -> Plan:
    """The groups of each step; fewer steps than asked for if the data is exhausted before.

    A group counts as one row. ValueError if the data is exhausted before one step.
    """
    examples = {name: [each.sides[:1] for each in found.groups] for name, found in sources.items()}
    plan = drawing.planned(drawing.Sources(examples), mixed, seed)
    if not plan:
        raise ValueError("the data is exhausted before one step: give more rows or epochs")
    return plan


def group(sources: Mapping[str, Groups], at: Place) -> Group:
    """The group at a place."""
    return sources[at.source].groups[at.row]


def sides(sources: Mapping[str, Groups], places: Sequence[Place]) -> list[Rendered]:
    """The completions of each place, in order."""
    return [side for at in places for side in group(sources, at).sides]


class References:
    """The reference's log-probabilities: computed ahead, or of the policy as it was.

    With `every` the policy itself becomes the reference again after so many steps; without, what
    `known` has (or else the policy before the first step) stays the reference. Values that were
    computed here are kept in `work`, so that a run that goes on has those it began with.
    """

    def __init__(
        self, engine: Engine, plan: Plan, sources: Mapping[str, Groups], work: Path,
        *, together: int, every: int | None, known: Known | None,
    ) -> None:  # fmt: skip
        assert every is None or known is None
        self._engine, self._plan, self._sources, self._work = engine, plan, sources, work
        self._every, self._together, self._known = every or len(plan), together, known
        self._interval: int | None = None
        self._values: Mapping[Place, Sequence[float]] = {}

    def fresh(self, step: int) -> bool:
        """Whether policy and reference are one before this step."""
        return step % self._every == 0

    def of(self, step: int) -> list[float]:
        """Log-probabilities of the step's completions; call it before the step's update."""
        if self._known is not None:
            return [value for at in self._plan[step] for value in self._known[at.source][at.row]]
        if (interval := step // self._every) != self._interval:
            self._values, self._interval = self._computed(interval), interval
        return [value for at in self._plan[step] for value in self._values[at]]

    def _computed(self, interval: int) -> Mapping[Place, Sequence[float]]:
        first = interval * self._every
        needed = sorted({at for batch in self._plan[first : first + self._every] for at in batch})
        kept = self._work / f"reference.{interval}.json"
        if kept.is_file():
            values = iter(json.loads(kept.read_text()))
        else:
            found = log_probs(self._engine, sides(self._sources, needed), self._together)
            write_durably(kept, json.dumps(found))
            values = iter(found)
        return {at: list(islice(values, len(group(self._sources, at).sides))) for at in needed}


class _Steps:
    """Takes one step after another, and ends a run in which something else is going on."""

    def __init__(
        self, engine: Engine, plan: Plan, sources: Mapping[str, Groups], objective: Objective,
        references: References, guards: GuardsConfig,
    ) -> None:  # fmt: skip
        self._engine, self._plan, self._sources = engine, plan, sources
        self._objective, self._references = objective, references
        self._watch = Watch(engine, guards, len(plan))

    def take(self, number: int) -> Line:
        """Step `number` (from 0)."""
        places = self._plan[number]
        columns = {"reference": self._references.of(number), **self._objective.columns(places)}
        documents = sides(self._sources, places)
        line = stepped(self._engine, documents, columns, self._objective)
        self._watch.check(number, line, fresh=self._references.fresh(number))
        return line


def stepped(
    engine: Engine, documents: Sequence[Rendered], columns: Mapping[str, Sequence[float]],
    objective: Objective,
) -> Line:  # fmt: skip
    """One optimizer step on `documents`; the line has means over what the loss told."""
    batch = tensors(rows(documents, objective.together), columns)
    line, metrics = loop.update(engine, batch, objective.loss(len(documents)))
    found = {
        name: statistics.fmean(values)
        for name, values in metrics.items()
        if isinstance(values, list)
    }
    targets = sum(sum(document.mask) for document in documents)
    return {"loss": line["loss"], **found, **line, "targets": targets}


class Watch:
    """Ends a run whose reference is another policy's, or whose policy stays what it was."""

    def __init__(self, engine: Engine, guards: GuardsConfig, steps: int) -> None:
        self._drift, self._within = guards.drift, min(guards.moves_within, steps)
        self._movement = Movement(engine.module)

    def check(self, number: int, line: Line, *, fresh: bool) -> None:
        """ValueError if step `number` (from 0) was not what it seems; `fresh` as `References`."""
        drift, bound = line["drift"], self._drift
        if fresh and not (math.isfinite(drift) and drift <= bound):
            raise ValueError(
                f"policy and reference differ by {drift:.4g} nats per token before they may (bound "
                f"{bound:.4g}): the reference is not of this policy; compute it again"
            )
        if number + 1 == self._within:
            self._movement.check(number + 1)


def write(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write lines as JSON."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
