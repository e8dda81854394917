"""verl's FSDP2 engine with this project's optimizers, schedules and an already verified model.

Sharding, gradient accumulation and clipping, and the loss's normalisation over the batch are
verl's. A row is documents end to end, without padding; attention and positions stay within each,
and only the loss's targets get logits. verl chooses its platform from the environment when it is
first imported: set up the backend's environment before importing this module.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import FSDPEngineWithLMHead

from posttrain.data.chat import Rendered
from posttrain.training import optimizers, rope
from posttrain.training.attention import use_documents
from posttrain.training.optimizers import OptimizerConfig, Optimizers
from posttrain.training.schedules import ScheduleConfig

_PRECISION = {"cpu": "fp32", "gpu": "bf16"}
_ROW = 1024
"""Tokens up to which documents share a row: fewer rows cost less, shorter ones stay in cache."""


class LearningRate:
    """The engine's scheduler: sets the rate of the coming step from the count of steps done."""

    def __init__(self, optimizer: Optimizers, schedule: ScheduleConfig, steps: int) -> None:
        self._optimizer, self._schedule, self._steps = optimizer, schedule, steps
        self.seek(0)

    def seek(self, done: int) -> None:
        """Continue as if `done` steps had been taken."""
        self._done = done
        self.factor = self._schedule.factor(done, self._steps)
        self._optimizer.scale(self.factor)

    def step(self) -> None:
        """One more step was taken."""
        self.seek(self._done + 1)

    def get_last_lr(self) -> list[float]:
        """The rate of each parameter group for the coming step."""
        return [group["lr"] for group in self._optimizer.param_groups]


class Engine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """Trains `model`, which came from `folder`, for `steps` steps on `backend`."""

    def __init__(
        self,
        model: PreTrainedModel,
        folder: Path,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        steps: int,
        backend: str,
    ) -> None:
        self._model, self._optimizer, self._schedule = model, optimizer, schedule
        self._steps = steps
        super().__init__(
            model_config=_model_config(folder),
            engine_config=_engine_config(_PRECISION[backend]),
            optimizer_config=FSDPOptimizerConfig(
                clip_grad=optimizer.clip, total_training_steps=steps
            ),
            checkpoint_config=CheckpointConfig(),
        )
        self.initialize()

    def trained_model(self) -> PreTrainedModel:
        """A plain copy of the model as it stands, whole on this process.

        ValueError if its RoPE is not the one that the engine computes with.
        """
        config = self.module.config
        plain: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=config.dtype)
        whole = {
            name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            for name, tensor in self.module.state_dict().items()
        }
        plain.load_state_dict(whole)
        rope.check(plain, rope.record(self.module))
        return plain

    def _build_module(self) -> PreTrainedModel:
        use_documents(self._model)
        self._model.get_output_embeddings().register_forward_pre_hook(self._keep_predicted)
        return self._model

    def _build_optimizer(self, module: Any) -> Optimizers:
        return optimizers.build(module.named_parameters(), self._optimizer)

    def _build_lr_scheduler(self, optimizer: Optimizers) -> LearningRate:
        return LearningRate(optimizer, self._schedule, self._steps)

    def prepare_model_inputs(
        self, micro_batch: TensorDict
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ids and positions (1, tokens) of one row, and the lengths of its documents."""
        ids, positions = (
            micro_batch[name].values()[None] for name in ("input_ids", "position_ids")
        )
        following = torch.roll(ids[0], shifts=-1)
        self._predicted = torch.roll(micro_batch["loss_mask"].values(), shifts=-1).bool()
        inputs = {
            "input_ids": ids, "position_ids": positions,
            "documents": micro_batch["documents"].values().tolist(),
        }  # fmt: skip
        return inputs, {"wanted": self._predicted, "following": following}

    def _keep_predicted(self, _: torch.nn.Module, hidden: tuple[torch.Tensor]) -> torch.Tensor:
        """Hidden states (1, tokens, size) of what precedes a target: (targets, size)."""
        return hidden[0][0, self._predicted]

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Log-probabilities of the loss's targets, zero elsewhere; ragged like the ids.

        verl 0.9.1 takes them of all tokens, in a Python loop over tokens.
        """
        wanted, following = output_args["wanted"], output_args["following"]
        found = -functional.cross_entropy(output.logits, following[wanted], reduction="none")
        values = found.new_zeros(following.shape).masked_scatter(wanted, found)
        offsets = micro_batch["input_ids"].offsets()
        return {"log_probs": torch.nested.nested_tensor_from_jagged(values, offsets)}


def rows(documents: Iterable[Rendered]) -> list[list[Rendered]]:
    """`documents` in their order, several to a row where they are short."""
    found: list[list[Rendered]] = []
    room = 0
    for document in documents:
        room -= len(document.ids)
        if room < 0:
            found.append([])
            room = _ROW - len(document.ids)
        found[-1].append(document)
    return found


def tensors(batch: Sequence[Sequence[Rendered]]) -> TensorDict:
    """A batch as verl takes it, ragged: each row a micro-batch."""
    documents = [[len(each.ids) for each in row] for row in batch]
    flat = list(chain.from_iterable(batch))
    ids = [each.ids for each in flat]
    fields = {
        "input_ids": _ragged(ids, map(sum, documents)),
        "loss_mask": _ragged([each.mask for each in flat], map(sum, documents)),
        "position_ids": _ragged(map(range, map(len, ids)), map(sum, documents)),
        "documents": _ragged(documents, map(len, documents)),
    }
    return tensordict_utils.get_tensordict(
        fields,
        {
            "use_remove_padding": False, "use_dynamic_bsz": False, "pad_mode": "no_padding",
            "micro_batch_size_per_gpu": 1, "temperature": 1.0,
        },
    )  # fmt: skip


def _ragged(parts: Iterable[Iterable[int]], lengths: Iterable[int]) -> torch.Tensor:
    """`parts` end to end, cut into rows of `lengths`."""
    offsets = torch.tensor([0, *accumulate(lengths)])
    values = torch.tensor(list(chain.from_iterable(parts)))
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _model_config(folder: Path) -> HFModelConfig:
    return HFModelConfig(
        path=str(folder), load_tokenizer=False, use_remove_padding=False,
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
    )  # fmt: skip


def _engine_config(precision: str) -> FSDPEngineConfig:
    return FSDPEngineConfig(
        strategy="fsdp2", use_torch_compile=False, use_remove_padding=False,
        use_dynamic_bsz=False, reshard_after_forward=False,
        mixed_precision={
            "param_dtype": precision, "reduce_dtype": "fp32", "buffer_dtype": "fp32",
        },
    )  # fmt: skip
