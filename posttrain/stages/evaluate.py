"""Evaluate: scores checkpoints on held-out suites; each checkpoint becomes a node of its own."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Self

from pydantic import Field

from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter

VERSION = 4

_EVERY = 5.0
"""Seconds between two signs of life of a suite that is being measured."""


class Config(StageConfig):
    """Which checkpoints (`of`) are measured on which suites (`measure`)."""

    of: tuple[Name, ...] = Field(min_length=1)
    measure: tuple[Name, ...] = Field(min_length=1)

    def spread(self, variants: Callable[[str], tuple[str, ...]]) -> Self:
        """Each variant is measured."""
        of = tuple(node for name in self.of for node in variants(name) or (name,))
        return self.model_copy(update={"of": of})

    def parts(self) -> dict[str, StageConfig]:
        """One node for each checkpoint, so that each is measured as soon as it is there."""
        return {name: self.model_copy(update={"of": (name,)}) for name in self.of}

    def inputs(self) -> dict[str, str]:
        """The checkpoint of this part."""
        return {"from": self.of[0]}

    def suites(self) -> tuple[str, ...]:
        """The suites measured."""
        return self.measure

    def measures(self) -> tuple[str, ...]:
        """The suites measured."""
        return self.measure

    def services(self) -> tuple[str, ...]:
        """Answers are scored by the reward service, as in training."""
        return ("rewards",)


def run(context: StageContext[Config]) -> Outcome:
    """Measure the checkpoint on each suite; metrics are named `<suite>.<metric>`.

    `scores.json` has the scores of each prompt: gates compare checkpoints on them.
    """
    from posttrain.evaluation.prompts import PromptScores
    from posttrain.evaluation.scoring import Examiner

    signs = Signs(context.report, len(context.suites), "suites")
    examiner = Examiner(context.inputs["from"], context.services["rewards"], context.seed, signs)
    metrics: dict[str, float] = {}
    kept: dict[str, PromptScores] = {}
    harness: dict[str, dict[str, str]] = {}
    for done, (name, suite) in enumerate(context.suites.items(), start=1):
        data = context.inputs[f"suite.{name}"].path
        named = context.inputs.get(f"charter.{name}")
        found = examiner.measure(
            suite, data, partial(kept.__setitem__, name), charter.load(named) if named else None
        )
        if examiner.harness is not None and suite.kind == "harness":
            harness[name] = vars(examiner.harness)
        metrics |= {f"{name}.{metric}": value for metric, value in found.items()}
        shown = {name: found["accuracy"]} if suite.may_steer else {}
        signs.measured(done, shown)
    (context.output / "metrics.json").write_text(json.dumps(metrics, indent=1))
    scores = {name: found.told() for name, found in kept.items()}
    (context.output / "scores.json").write_text(json.dumps(scores))
    ran = {"harness": harness} if harness else {}
    return Outcome(metrics, {"versions": examiner.versions, **ran})


class Signs:
    """Signs of life: after each of `total`, and within one every `_EVERY` seconds when called."""

    def __init__(self, report: Callable[[Progress], None], total: int, phase: str) -> None:
        self._report, self._total, self._phase = report, total, phase
        self._done, self._told = 0, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._told >= _EVERY:
            self.measured(self._done, {})

    def measured(self, done: int, figures: Mapping[str, float]) -> None:
        """So many of all are measured; `figures` may be shown."""
        self._done, self._told = done, time.monotonic()
        self._report(Progress(done, self._total, phase=self._phase, metrics=figures))
