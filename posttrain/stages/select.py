"""Select: the best of several checkpoints by a suite, never the latest for being the latest.

The candidates are the checkpoints of the stages in `of` and those that these kept on their way, in
the order of `of` and of their steps. All are measured on the same rows; of equal ones the first is
taken.
"""

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from posttrain.names import Name
from posttrain.stages import Outcome, StageConfig, StageContext, charter
from posttrain.stages.evaluate import Signs
from posttrain.store import Artifact, write_durably

VERSION = 1


def _written(value: Any) -> Any:
    return str(value) if type(value) is int else value


PartName = Annotated[
    str, BeforeValidator(_written), StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
"""The name of a part; a length is a number."""

_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean, "min": min,
}  # fmt: skip

_WHOLE = "*"
"""The suite as a whole, among parts."""

_SCORES = "scores.json"


class Config(StageConfig):
    """`by` is `mean` or `min` over parts of the suite, or the name of one part.

    Parts are what a suite has an accuracy of: lengths, tasks, articles. `over` names them; without
    it they are the suite's lengths, where it has none its other parts, and where it has none of
    these the suite as a whole.
    """

    of: tuple[Name, ...] = Field(min_length=1)
    suite: Name
    by: PartName
    over: Annotated[tuple[PartName, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for names in (self.of, self.over or ()):
            if len(set(names)) < len(names):
                raise ValueError(f"{', '.join(names)[:100]}: one is named twice")
        if self.over and self.by not in _AGGREGATIONS:
            raise ValueError(f"by: {self.by} is one part; remove `over`, or say mean or min")
        return self

    def spread(self, variants: Callable[[str], tuple[str, ...]]) -> Self:
        """Each variant is measured."""
        of = tuple(node for name in self.of for node in variants(name) or (name,))
        return self.model_copy(update={"of": of})

    def inputs(self) -> dict[str, str]:
        """Each stage's checkpoints."""
        return {f"from.{name}": name for name in self.of}

    def misfit(self, sources: Mapping[str, StageConfig]) -> str | None:
        """One stage that keeps nothing on its way leaves no choice."""
        if len(self.of) > 1 or sources[f"from.{self.of[0]}"].keeps():
            return None
        return _no_choice(self.of[0])

    def suites(self) -> tuple[str, ...]:
        """The suite that decides."""
        return (self.suite,)

    def services(self) -> tuple[str, ...]:
        """Answers are scored by the reward service, as in training."""
        return ("rewards",)


class Candidate(NamedTuple):
    """A checkpoint of stage `of`; `step` tells one that was kept on the way from its last."""

    of: str
    step: int | None
    checkpoint: Artifact

    @property
    def name(self) -> str:
        """`stage`, or `stage.step`."""
        return self.of if self.step is None else f"{self.of}.{self.step}"


def run(context: StageContext[Config]) -> Outcome:
    """Measure every candidate, choose, and commit the choice as a checkpoint of its own."""
    config, found = context.config, candidates(context.config.of, context.inputs)
    figures = _measured(context, found)
    values = {name: value(config, each) for name, each in figures.items()}
    best = best_of(values)
    chosen = next(each for each in found if each.name == best)
    facts = _taken(chosen.checkpoint, context.output)
    (context.output / _SCORES).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    selected = {
        "stage": chosen.of, "step": chosen.step, "by": config.by,
        "over": parts(config, figures[best]), "values": values,
    }  # fmt: skip
    metrics = {f"{config.suite}.{name}": figure for name, figure in figures[best].items()}
    return Outcome(metrics | {"selected": values[best]}, facts | {"selected": selected})


def candidates(of: Sequence[str], inputs: Mapping[str, Artifact]) -> list[Candidate]:
    """All that is chosen from; ValueError if that is one."""
    from posttrain.training import keeping

    found: list[Candidate] = []
    for name in of:
        artifact = inputs[f"from.{name}"]
        for kept in keeping.kept(artifact.path):
            record = artifact.record.model_copy(update={"facts": dict(kept.facts)})
            found.append(Candidate(name, kept.step, Artifact(kept.path, record)))
        found.append(Candidate(name, None, artifact))
    if len(found) == 1:
        raise ValueError(_no_choice(of[0]))
    return found


def _no_choice(stage: str) -> str:
    return (
        f"there is nothing to select from: {stage} has one checkpoint; name more stages, or set "
        "`keep_every` of an sft stage"
    )


def _measured(
    context: StageContext[Config], found: Sequence[Candidate]
) -> dict[str, dict[str, float]]:
    """Figures by candidate; those measured before a crash are not measured again."""
    path = context.work / _SCORES
    figures: dict[str, dict[str, float]] = json.loads(path.read_bytes()) if path.is_file() else {}
    signs = Signs(context.report, len(found), "select")
    for done, candidate in enumerate(found, start=1):
        if candidate.name not in figures:
            figures[candidate.name] = _figures(context, candidate.checkpoint, signs)
            write_durably(path, json.dumps(figures))
        signs.measured(done, {candidate.name: value(context.config, figures[candidate.name])})
    return figures


def _figures(context: StageContext[Config], checkpoint: Artifact, signs: Signs) -> dict[str, float]:
    from posttrain.evaluation.scoring import Examiner

    name = context.config.suite
    named = context.inputs.get(f"charter.{name}")
    examiner = Examiner(checkpoint, context.services["rewards"], context.seed, signs)
    return examiner.measure(
        context.suites[name], context.inputs[f"suite.{name}"].path,
        charter=charter.load(named) if named else None,
    )  # fmt: skip


def value(config: Config, figures: Mapping[str, float]) -> float:
    """What a candidate with `figures` is chosen by; ValueError if a part is missing."""
    found = _accuracies(figures)
    if missing := [name for name in parts(config, figures) if name not in found]:
        known = ", ".join(name for name in found if name != _WHOLE) or "none"
        raise ValueError(
            f"suite {config.suite} has no part {missing[0]!r}; its parts: {known}: change "
            "`by` or `over`"
        )
    aggregate = _AGGREGATIONS.get(config.by, statistics.fmean)
    return aggregate([found[name] for name in parts(config, figures)])


def parts(config: Config, figures: Mapping[str, float]) -> list[str]:
    """Names of the parts that decide."""
    if config.by not in _AGGREGATIONS:
        return [config.by]
    if config.over:
        return list(config.over)
    named = [name for name in _accuracies(figures) if name != _WHOLE]
    return [name for name in named if name.isdecimal()] or named or [_WHOLE]


def _accuracies(figures: Mapping[str, float]) -> dict[str, float]:
    """Part -> accuracy, that of the suite as a whole first."""
    named = {
        name.removeprefix("accuracy."): figure
        for name, figure in figures.items()
        if name.startswith("accuracy.")
    }
    return {_WHOLE: figures["accuracy"], **named}


def best_of(values: Mapping[str, float]) -> str:
    """The candidate with the highest value, of equal ones the first."""
    return max(values, key=lambda name: values[name])


def _taken(checkpoint: Artifact, output: Path) -> dict[str, Any]:
    """Copy the checkpoint to `output`; returns the facts of the copy, which are its own."""
    from posttrain.training.checkpoint import facts, load_model, load_tokenizer

    shutil.copytree(checkpoint.path / "model", output / "model")
    expected = checkpoint.record.facts
    return facts(load_model(output, expected), load_tokenizer(output, expected))
