"""What a recipe may say of an SDPO stage; nothing here imports torch."""

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from posttrain.judging.config import JudgeConfig
from posttrain.names import Name
from posttrain.objectives.config import SDPOConfig, TeacherConfig
from posttrain.quantities import Share
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.rollouts.config import LocalConfig, RolloutsConfig
from posttrain.training.schedules import Constant, ScheduleConfig

SLOT = re.compile(r"\{(prompt|demonstration|feedback)\}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _slotted(*wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        found = [slot[1] for slot in SLOT.finditer(text)]
        if sorted(found) != sorted(wanted):
            raise ValueError(f"needs each of {{{'}, {'.join(wanted)}}} once and no other slot")
        return text

    return AfterValidator(check)


class RepromptConfig(_Strict):
    """What the teacher reads in place of the prompt's last message.

    `feedback` is used always, only where there is no demonstration, or never. A `demonstration` is
    a response to the same prompt that scored at least `success`: of any rollout or only of others,
    its thinking left out unless asked for. Prompts beyond `length` tokens are not used. A response
    with neither is not distilled.
    """

    feedback: Literal["always", "without_demonstration", "never"] = "always"
    demonstration: Literal["never", "any", "others"] = "never"
    demonstration_thinking: bool = False
    success: Share = 1.0
    length: PositiveInt
    template: Annotated[str, _slotted("prompt", "demonstration", "feedback")] = (
        "{prompt}{demonstration}{feedback}\n\nNow answer the question at the top as it should be."
    )
    demonstration_template: Annotated[str, _slotted("demonstration")] = (
        "\n\nAn answer that was found good:\n\n{demonstration}"
    )
    feedback_template: Annotated[str, _slotted("feedback")] = (
        "\n\nAn earlier answer was not good enough. A reviewer says of it:\n\n{feedback}"
    )

    @model_validator(mode="after")
    def _tells_something(self) -> Self:
        if self.feedback == "never" and self.demonstration == "never":
            raise ValueError("a teacher without feedback and demonstration has nothing to teach")
        return self


class LengthsConfig(_Strict):
    """Most tokens of a prompt (a longer one is refused) and of a response (it is cut)."""

    prompt: PositiveInt
    response: PositiveInt


class LimitsConfig(_Strict):
    """When a stage gives up.

    `untaught` is the share of a step's responses that may be left out through a fault: a judge that
    fails or says nothing, a teacher's prompt that is too long. `patience` is how long the verdicts
    of a step may take, in seconds.
    """

    untaught: Share = 0.1
    patience: float = Field(default=600.0, gt=0)


class AnchorConfig(_Strict):
    """Prompts on which the model is to stay as it is: `prompts_per_step` of `data`, one response.

    The teacher reads them as they are, so that the loss is the distance from it. Where all prompts
    ask for one thing, the model else forgets others: how to think before it answers, say.
    """

    data: Name
    prompts_per_step: PositiveInt


class SdpoConfig(_Strict):
    """An SDPO run. A step samples `group` responses to each of `prompts_per_step` prompts.

    They give `updates` updates of the weights, each with its share of the prompts; beyond the first
    the policy is no longer the one that sampled, which the objective's `is_clip` bounds.
    """

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"save_every"})

    data: Name
    judge: JudgeConfig
    reprompt: RepromptConfig
    anchor: AnchorConfig | None = None
    teacher: TeacherConfig
    objective: SDPOConfig
    rollouts: RolloutsConfig = LocalConfig()
    steps: PositiveInt
    prompts_per_step: PositiveInt
    group: PositiveInt = 1
    updates: PositiveInt = 1
    lengths: LengthsConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(constant=Constant(warmup=3))
    limits: LimitsConfig = LimitsConfig()
    threads: PositiveInt = 1
    save_every: PositiveInt = 20

    @model_validator(mode="after")
    def _divides(self) -> Self:
        for count in (self.prompts_per_step, self.anchor.prompts_per_step if self.anchor else 0):
            if count % self.updates:
                raise ValueError(f"{count} prompts do not make {self.updates} equal updates")
        if self.reprompt.demonstration == "others" and self.group == 1:
            raise ValueError("a group of 1 has no others to demonstrate: raise group")
        return self
