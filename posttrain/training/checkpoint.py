"""Checkpoints: a model folder with a record of what is in it, and the state of a running stage.

`save_model` and `load_model` are the hand-over between stages: weights, tokenizer, template and
RoPE are digested by value when written and compared when read. A training state (weights,
optimizer, random numbers, step) never leaves its stage; it is replaced atomically.
"""

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import digests
from posttrain.training import rope

_STATE = "state.pt"


def save_model(model: PreTrainedModel, tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Write a Hugging Face folder; returns the facts that `load_model` compares with."""
    model.generation_config.eos_token_id = ChatFormat.from_tokenizer(tokenizer).stop_ids
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return facts(model, tokenizer)


def facts(model: PreTrainedModel, tokenizer: Tokenizer) -> dict[str, Any]:
    """What is compared at every hand-over, and the versions that read it."""
    return {
        "rope": rope.record(model),
        "weights_sha256": weights_digest(model),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **digests(tokenizer),
        "versions": versions(),
    }


def load_model(artifact: Path, expected: Mapping[str, Any]) -> PreTrainedModel:
    """The model of a checkpoint artifact; ValueError names what differs from the facts."""
    load_tokenizer(artifact, expected)
    model = _loaded(artifact / "model")
    rope.check(model, expected["rope"])
    _compare(artifact, {"weights_sha256": weights_digest(model)}, expected)
    return model


def _loaded(folder: Path) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if getattr(config, "output_vocab_size", None) in (None, config.vocab_size):
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", local_files_only=True
        )
        return model
    # transformers knows no head that is smaller than the embedding.
    from posttrain.conversion.model import build
    from posttrain.conversion.weights import Weights

    return build(folder, Weights(folder))


def load_tokenizer(artifact: Path, expected: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a checkpoint artifact; ValueError if it or its template differs."""
    tokenizer: Tokenizer = AutoTokenizer.from_pretrained(artifact / "model", local_files_only=True)
    _compare(artifact, digests(tokenizer), expected)
    return tokenizer


def weights_digest(model: PreTrainedModel) -> str:
    """sha256 over names, types, shapes and bytes of all tensors, sorted by name."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _compare(artifact: Path, found: Mapping[str, str], expected: Mapping[str, Any]) -> None:
    for name, value in found.items():
        if value != expected[name]:
            raise ValueError(
                f"checkpoint {artifact}: {name} is {value}, its record says {expected[name]}; "
                "the folder was changed after its commit: restore it or run its stage again"
            )


def versions() -> dict[str, str]:
    """Versions of what decides a training result."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "verl": metadata.version("verl"),
    }


@dataclass(frozen=True)
class TrainingState:
    """Where a run stands after `step` steps; `history` is one line of metrics per step.

    `beside` is what changes with the steps beside model and optimizer.
    """

    step: int
    model: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    random: torch.Tensor
    history: list[dict[str, float]]
    beside: Mapping[str, Any] = field(default_factory=dict)


def save_state(folder: Path, state: TrainingState) -> None:
    """Replace the training state in `folder`: after a crash it is the old or the new one."""
    temporary = folder / f".{_STATE}.new"
    with temporary.open("wb") as stream:
        torch.save({key: getattr(state, key) for key in TrainingState.__dataclass_fields__}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(folder / _STATE)


def load_state(folder: Path) -> TrainingState | None:
    """The training state in `folder`, if one was saved."""
    path = folder / _STATE
    if not path.is_file():
        return None
    return TrainingState(**torch.load(path, weights_only=True))
