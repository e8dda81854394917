"""Reference: log-probabilities of the completions of pairs under a checkpoint, computed once.

Several stages that start from that checkpoint share them, and train with one model in memory.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

if TYPE_CHECKING:
    from posttrain.data.pairs import Groups
    from posttrain.training.policy import Policy

VERSION = 1


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class Config(StageConfig):
    """`from` is the reference; `data` are sets of pairs, or `completions` a stage's.

    Of pairs, `length` and `drop_at_most` are those of the stage that trains.
    """

    source: str = Field(alias="from")
    data: Annotated[tuple[Name, ...], BeforeValidator(_names)] = ()
    completions: Name | None = None
    length: PositiveInt | None = None
    drop_at_most: Share = 0.0
    threads: PositiveInt = 1

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.data) == (self.completions is not None):
            raise ValueError("a reference is of data (pairs) or of completions: name one of them")
        return self

    def inputs(self) -> dict[str, str]:
        """The checkpoint, and each set of pairs or the completions."""
        made = {"completions": self.completions} if self.completions else {}
        return {"from": self.source, **{f"data.{name}": name for name in self.data}, **made}

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Compute the log-probabilities on the backend's engine and write them, a line a group."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import reference
    from posttrain.training.policy import Policy

    config, start = context.config, context.inputs["from"]
    policy = Policy.load(start.path, start.record.facts)
    files, sources = _sources(context, policy)
    metrics = reference.compute(
        policy, sources, config.threads,
        backend=context.backend, work=context.work, output=context.output,
        report=lambda done, total: context.report(Progress(done, total, phase="groups")),
    )  # fmt: skip
    return Outcome(metrics, reference.identity(start.record.facts, files))


def _sources(
    context: StageContext[Config], policy: "Policy"
) -> "tuple[dict[str, Path], dict[str, Groups]]":
    """The files that are computed and what is in them, by name."""
    from posttrain.data.scored import read_sampled
    from posttrain.judging.completions import COMPLETIONS
    from posttrain.training.dpo import Limits
    from posttrain.training.tracks import NAME

    config = context.config
    if config.completions:
        folder = context.inputs["completions"].path
        return {NAME: folder / COMPLETIONS}, {NAME: read_sampled(folder, policy.chat)}
    data = {name: context.inputs[f"data.{name}"].path / "train.jsonl" for name in config.data}
    return data, Limits(config.length, config.drop_at_most).read(data, policy)
