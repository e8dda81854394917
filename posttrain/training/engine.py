"""verl's FSDP2 engine with this project's optimizers, schedules and an already verified model.

Sharding, gradient accumulation and clipping, and the loss's normalisation over the batch are
verl's. A row is documents end to end, without padding; attention and positions stay within each,
and only the loss's targets get logits. verl chooses its platform from the environment when it is
first imported: set up the backend's environment before importing this module.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import FSDPEngineWithLMHead

from posttrain.data.chat import Rendered
from posttrain.training import optimizers, rope, sequence
from posttrain.training.optimizers import OptimizerConfig, Optimizers
from posttrain.training.schedules import ScheduleConfig
from posttrain.training.sequence import Row, whole

Precision = Literal["fp32", "bf16"]

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_PRECISION: Mapping[str, Precision] = {"cpu": "fp32", "gpu": "bf16"}
ROW = 1024
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
    """Trains `model`, which came from `folder`, for `steps` steps on `backend`.

    `compute` is the type of forward and backward pass; weights and optimizer keep the model's own.
    `sequence_parallel` ranks share the tokens of each row (Ulysses).
    """

    def __init__(
        self,
        model: PreTrainedModel,
        folder: Path,
        optimizer: OptimizerConfig,
        schedule: ScheduleConfig,
        steps: int,
        backend: str,
        *,
        compute: Precision | None = None,
        sequence_parallel: int = 1,
    ) -> None:
        self._model, self._optimizer, self._schedule = model, optimizer, schedule
        self._steps, self._compute = steps, compute or _PRECISION[backend]
        super().__init__(
            model_config=_model_config(folder, remove_padding=sequence_parallel > 1),
            engine_config=_engine_config(self._compute, sequence_parallel),
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
        config = copy.deepcopy(self.module.config)  # Saving a model writes to its config.
        plain: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=config.dtype)
        plain.load_state_dict(self.weights())
        rope.check(plain, rope.record(self.module))
        return plain

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights as they stand, by name, whole on this process."""
        return {
            name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            for name, tensor in self.module.state_dict().items()
        }

    def _build_module(self) -> PreTrainedModel:
        sequence.use(self._model, self.ulysses_sequence_parallel_size)
        self._model.get_output_embeddings().register_forward_pre_hook(self._keep_predicted)
        return self._model

    def _build_fsdp_module(self, module: PreTrainedModel) -> Any:
        """Sharded; one process that computes in the weights' own type has nothing to shard.

        FSDP would hold a second copy of the weights and of the gradients there.
        """
        if dist.get_world_size() > 1 or module.dtype != _TYPES[self._compute]:
            return super()._build_fsdp_module(module)
        self._autocast_dtype = torch.float32  # verl's sign that nothing is to be cast.
        return module

    def _build_optimizer(self, module: Any) -> Optimizers:
        return optimizers.build(module.named_parameters(), self._optimizer)

    def _build_lr_scheduler(self, optimizer: Optimizers) -> LearningRate:
        return LearningRate(optimizer, self._schedule, self._steps)

    def optimizer_step(self) -> float:
        """Clip and step; `gradient_norm` is the norm before, which verl tells some ranks only."""
        self.gradient_norm = float(super().optimizer_step())
        return self.gradient_norm

    def prepare_model_inputs(
        self, micro_batch: TensorDict
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ids and positions (1, tokens) of one row, and the lengths of its documents.

        The row's last token is a label only. Of a row that ranks share, their part.
        """
        ids, mask = (micro_batch[name].values() for name in ("input_ids", "loss_mask"))
        *documents, last = micro_batch["documents"].values().tolist()
        row = Row(
            ids[:-1], micro_batch["position_ids"].values()[:-1], ids[1:], mask[1:].bool(),
            [*documents, last - 1],
        ).part(self.ulysses_sequence_parallel_size)  # fmt: skip
        self._predicted = row.wanted
        inputs = {
            "input_ids": row.ids[None], "position_ids": row.positions[None],
            "documents": row.documents,
        }  # fmt: skip
        return inputs, {"wanted": row.wanted, "following": row.following, "padding": row.padding}

    def _keep_predicted(self, _: torch.nn.Module, hidden: tuple[torch.Tensor]) -> torch.Tensor:
        """Hidden states (1, tokens, size) of what precedes a target: (targets, size)."""
        return hidden[0][0, self._predicted]

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Log-probabilities of the loss's targets, zero elsewhere; ragged like the ids.

        verl 0.9.1 takes them of all tokens, in a Python loop over tokens. A batch `with_logits`
        has the targets' `logits` (targets, vocabulary) instead.
        """
        if tensordict_utils.get_non_tensor_data(micro_batch, "with_logits", False):
            return {"logits": output.logits}
        wanted, following = output_args["wanted"], output_args["following"]
        logits = output.logits.float()
        temperature = tensordict_utils.get_non_tensor_data(micro_batch, "temperature", 1.0)
        if temperature != 1:
            logits = logits / temperature
        found = -functional.cross_entropy(logits, following[wanted], reduction="none")
        values = found.new_zeros(following.shape).masked_scatter(wanted, found)
        values = functional.pad(whole(values, output_args["padding"]), (0, 1))
        offsets = micro_batch["input_ids"].offsets()
        return {"log_probs": torch.nested.nested_tensor_from_jagged(values, offsets)}


def rows(documents: Sequence[Rendered], together: int = 1) -> list[list[Rendered]]:
    """`documents` in their order, several to a row where they are short.

    Each `together` that follow one another, a pair say, share a row.
    """
    found: list[list[Rendered]] = []
    room = 0
    for start in range(0, len(documents), together):
        group = documents[start : start + together]
        size = sum(len(document.ids) for document in group)
        room -= size
        if room < 0:
            found.append([])
            room = ROW - size
        found[-1] += group
    return found


def tensors(
    batch: Sequence[Sequence[Rendered]],
    columns: Mapping[str, Sequence[float]] | None = None,
    *,
    with_logits: bool = False,
    temperature: float = 1.0,
) -> TensorDict:
    """A batch as verl takes it, ragged: each row a micro-batch, `row` its number.

    `columns` have one value for each document, and are ragged as `documents`, their lengths, is.
    `with_logits` gives the loss the logits of its targets, for training only. Log-probabilities
    are those at `temperature`.
    """
    documents = [[len(each.ids) for each in row] for row in batch]
    flat = list(chain.from_iterable(batch))
    ids = [each.ids for each in flat]
    fields = {
        "input_ids": _ragged(ids, map(sum, documents)),
        "loss_mask": _ragged([each.mask for each in flat], map(sum, documents)),
        "position_ids": _ragged(map(range, map(len, ids)), map(sum, documents)),
        "documents": _ragged(documents, map(len, documents)),
        "row": torch.arange(len(batch)),
    }
    for name, values in (columns or {}).items():
        assert len(values) == len(flat), f"{name} needs a value for each document"
        fields[name] = _ragged([values], map(len, documents))
    return tensordict_utils.get_tensordict(
        fields,
        {
            "use_remove_padding": False, "use_dynamic_bsz": False, "pad_mode": "no_padding",
            "micro_batch_size_per_gpu": 1, "temperature": temperature, "with_logits": with_logits,
        },
    )  # fmt: skip


def _ragged(parts: Iterable[Iterable[float]], lengths: Iterable[int]) -> torch.Tensor:
    """`parts` end to end, cut into rows of `lengths`."""
    offsets = torch.tensor([0, *accumulate(lengths)])
    values = torch.tensor(list(chain.from_iterable(parts)))
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _model_config(folder: Path, *, remove_padding: bool) -> HFModelConfig:
    """verl wants padding removed where ranks share sequences; here there is none either way."""
    return HFModelConfig(
        path=str(folder), load_tokenizer=False, use_remove_padding=remove_padding,
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
    )  # fmt: skip


def _engine_config(precision: Precision, sequence_parallel: int) -> FSDPEngineConfig:
    return FSDPEngineConfig(
        strategy="fsdp2", ulysses_sequence_parallel_size=sequence_parallel,
        use_torch_compile=False, use_remove_padding=False,
        use_dynamic_bsz=False, reshard_after_forward=False,
        mixed_precision={
            "param_dtype": precision, "reduce_dtype": "fp32", "buffer_dtype": "fp32",
        },
    )  # fmt: skip
