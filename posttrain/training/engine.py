"""verl's FSDP2 engine with this project's optimizers, schedules and an already verified model.

Three builders of the engine are overridden; sharding, micro-batching, the forward pass, gradient
clipping and the skipped step on a non-finite gradient are verl's. verl chooses its platform from
the environment when it is first imported: set up the backend before importing this module.
"""

from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch.nn import functional
from transformers import PreTrainedModel
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import FSDPEngineWithLMHead

from posttrain.training import optimizers
from posttrain.training.optimizers import OptimizerConfig, Optimizers
from posttrain.training.schedules import ScheduleConfig


class LearningRate:
    """The engine's scheduler: sets the rate of the coming step from the count of steps done."""

    def __init__(self, optimizer: Optimizers, schedule: ScheduleConfig, steps: int) -> None:
        self._optimizer, self._schedule, self._steps = optimizer, schedule, steps
        self.seek(0)

    def seek(self, done: int) -> None:
        """Continue as if `done` steps had been taken."""
        self.done = done
        self._optimizer.scale(self._schedule.factor(done, self._steps))

    def step(self) -> None:
        """One more step was taken."""
        self.seek(self.done + 1)

    def get_last_lr(self) -> list[float]:
        """The rate of each parameter group for the coming step."""
        return [group["lr"] for group in self._optimizer.param_groups]


class Engine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """Trains `model` in place of one that verl would load from a path itself."""

    def __init__(
        self,
        model: PreTrainedModel,
        folder: Path,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        steps: int,
    ) -> None:
        self._model, self._optimizer, self._schedule = model, optimizer, schedule
        self._steps = steps
        super().__init__(
            model_config=_model_config(folder),
            engine_config=_engine_config(),
            optimizer_config=FSDPOptimizerConfig(
                clip_grad=optimizer.clip, total_training_steps=steps
            ),
            checkpoint_config=CheckpointConfig(),
        )
        self.initialize()

    def _build_module(self) -> PreTrainedModel:
        self._model.get_output_embeddings().register_forward_pre_hook(self._select)
        return self._model

    def _build_optimizer(self, module: Any) -> Optimizers:
        return optimizers.build(module.named_parameters(), self._optimizer)

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rows are padded on the right, where causal attention needs no mask to ignore it."""
        inputs, remembered = super().prepare_model_inputs(micro_batch)
        lengths = micro_batch["input_ids"].offsets().diff()
        wanted = torch.roll(micro_batch["loss_mask"].values(), shifts=-1).bool()
        real = torch.arange(inputs["input_ids"].shape[1], device=lengths.device) < lengths[:, None]
        self._predicted = real.masked_scatter(real, wanted)
        return {"input_ids": inputs["input_ids"]}, remembered | {"wanted": wanted}

    def _select(self, _: torch.nn.Module, hidden: tuple[torch.Tensor]) -> torch.Tensor:
        """Hidden states (rows, length, size) -> (targets, size): only these get logits."""
        return hidden[0][self._predicted]

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Log-probabilities (ragged, as the ids) of the loss's targets; zero elsewhere.

        verl's own pass has logits for every token and takes a log-sum-exp of each in a loop.
        """
        wanted, following = output_args["wanted"], output_args["input_ids_rmpad_rolled"]
        found = -functional.cross_entropy(output.logits, following[wanted], reduction="none")
        values = found.new_zeros(following.shape).masked_scatter(wanted, found)
        offsets = micro_batch["input_ids"].offsets()
        return {"log_probs": torch.nested.nested_tensor_from_jagged(values, offsets)}

    def _build_lr_scheduler(self, optimizer: Optimizers) -> LearningRate:
        return LearningRate(optimizer, self._schedule, self._steps)


def _model_config(folder: Path) -> HFModelConfig:
    return HFModelConfig(
        path=str(folder), load_tokenizer=False, use_remove_padding=False,
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
    )  # fmt: skip


def _engine_config() -> FSDPEngineConfig:
    return FSDPEngineConfig(
        strategy="fsdp2", use_torch_compile=False, use_remove_padding=False,
        use_dynamic_bsz=False, reshard_after_forward=False,
        mixed_precision={"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
    )  # fmt: skip
