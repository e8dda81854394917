"""Follow-ups: trains a checkpoint on what it learns of its responses from what users said next."""

import os
from typing import Annotated

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt

from posttrain.data.mixture import Mixture, PartsField
from posttrain.objectives.config import FollowUpConfig
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.training.guards import FOLLOW_UP, UpdatesConfig

VERSION = 1


def _one_slot(text: str) -> str:
    if text.count(FOLLOW_UP) != 1:
        raise ValueError(f"needs {FOLLOW_UP} once")
    return text


class Config(UpdatesConfig, StageConfig):
    """`data` are conversations; each response that a user's message follows is trained on.

    In hindsight the model reads `template`, with that message, after its prompt. The first
    `ignore_first` tokens of a response do not count. A response without a follow-up, with a blank
    one, or longer than `length` with its prompt and follow-up (without it, than the context) is
    left out and counted: above the share `drop_at_most` the stage refuses.
    """

    source: str = Field(alias="from")
    data: PartsField
    template: Annotated[str, AfterValidator(_one_slot)] = (
        "\n\nWhat I will write once you have answered:\n\n{follow_up}"
    )
    ignore_first: NonNegativeInt = 2
    length: PositiveInt | None = None
    drop_at_most: Share = 0.0

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from, and each set of conversations."""
        return {"from": self.source, **{f"data.{name}": name for name in self.data}}

    def mixture(self) -> Mixture:
        """`steps` batches of responses."""
        return Mixture(self.data, "rows", self.on_exhausted, self.steps * self.batch, self.batch)

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine and write the checkpoint."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import followups, hindsight
    from posttrain.training.policy import Policy

    config, start = context.config, context.inputs["from"]
    policy = Policy.load(start.path, start.record.facts)
    if config.length is not None and config.length > policy.context:
        raise ValueError(
            f"length {config.length} is beyond the checkpoint's context {policy.context}"
        )
    usable = hindsight.Usable(
        config.template, config.length or policy.context, config.ignore_first, config.drop_at_most
    )
    paths = {name: context.inputs[f"data.{name}"].path / "train.jsonl" for name in config.data}
    sources = {name: hindsight.read(path, policy.chat, usable) for name, path in paths.items()}
    metrics, facts = followups.distil(
        policy, sources,
        followups.Settings(
            config, FollowUpConfig(ignore_first=config.ignore_first), config.mixture(), context.seed
        ),
        backend=context.backend, work=context.work, output=context.output,
        report=lambda step, steps, line: context.report(Progress(step, steps, metrics=line)),
    )  # fmt: skip
    return Outcome(metrics, facts)
