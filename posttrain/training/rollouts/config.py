"""What a recipe may say of who samples; nothing here imports torch or vLLM."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from posttrain.quantities import Share


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LocalConfig(_Strict):
    """A copy of the model in the trainer's process samples: for CPUs, and models that are small."""

    engine: Literal["local"] = "local"


class VllmConfig(_Strict):
    """A vLLM engine in a process of its own samples, on `tensor_parallel` devices.

    It may use the share `memory` of a GPU's memory. After each step it gets the trainer's weights;
    where its log-probabilities of what it sampled are off the trainer's by more than `gap` nats per
    token, in the mean, the stage ends. It has `start` seconds to come up, and may be silent for
    `silence` seconds.
    """

    engine: Literal["vllm"]
    tensor_parallel: PositiveInt = 1
    memory: Annotated[Share, Field(gt=0)] = 0.4
    gap: PositiveFloat = 0.02
    start: PositiveFloat = 900.0
    silence: PositiveFloat = 600.0


RolloutsConfig = Annotated[LocalConfig | VllmConfig, Field(discriminator="engine")]
