"""Writing a Hugging Face folder from weights: safetensors shards, config, tokenizer.

Tensors pass through one at a time, so that memory holds one shard. A folder that exists is never
written into; the store shows it only when it is whole.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from posttrain.conversion.model import EMBEDDINGS, HEAD
from posttrain.conversion.weights import Weights, rounded
from posttrain.equivalence.changes import Changes

_SHARD = 5 * 10**9
"""Bytes of a shard, but for a tensor that is larger."""

_SYSTEM = re.compile(r"\(os error (\d+)\)")

_WEIGHTS = (".safetensors", ".safetensors.index.json", ".pt", ".bin")
_OURS = ("config.json", "adapter_config.json", "README.md", "serving.json")


def write(
    weights: Weights, config: Path, target: Path, changes: Changes, *, shard_bytes: int = _SHARD
) -> None:
    """Make the folder `target` of `weights` and of what lies beside the config in `config`.

    ValueError if `target` exists, or the head has too few rows or would lose one that the
    tokenizer's control tokens need.
    """
    if target.exists():
        raise ValueError(f"{target} is there already; a conversion overwrites nothing")
    settings = _settings(config, weights, changes)
    target.mkdir(parents=True)
    (target / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for path in sorted(config.iterdir()):
        if path.is_file() and not path.name.endswith(_WEIGHTS) and path.name not in _OURS:
            shutil.copyfile(path, target / path.name)
    _write_shards(weights, target, changes, bool(settings.get("tie_word_embeddings")), shard_bytes)


def _settings(config: Path, weights: Weights, changes: Changes) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((config / "config.json").read_bytes())
    if changes.dtype:
        settings.pop("torch_dtype", None)
        settings["dtype"] = changes.dtype
    if changes.output_vocabulary:
        _check_head(config, weights, changes.output_vocabulary)
        settings["output_vocab_size"] = changes.output_vocabulary
        settings["tie_word_embeddings"] = False
    return settings


def _check_head(config: Path, weights: Weights, rows: int) -> None:
    from posttrain.data.chat import ChatFormat
    from posttrain.equivalence.rendering import load_tokenizer

    if (there := len(weights[_head_of(weights)])) < rows:
        raise ValueError(f"the head has {there} rows; output_vocabulary must not exceed that")
    chat = ChatFormat.from_tokenizer(load_tokenizer(config))
    lost = {name: index for name, index in chat.control.items() if index >= rows}
    lost |= {f"stop id {index}": index for index in chat.stop_ids if index >= rows}
    if lost:
        raise ValueError(
            f"output_vocabulary {rows} cuts off {', '.join(sorted(lost)[:4])}, which the model "
            f"must be able to write; keep at least {max(lost.values()) + 1} rows"
        )


def _head_of(weights: Weights) -> str:
    names = weights.names()
    return next(name for name in (HEAD, *EMBEDDINGS) if name in names)


def _converted(
    weights: Weights, changes: Changes, tied: bool
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors to be written; a tied head is not, unless it becomes one of its own."""
    dtype: torch.dtype | None = getattr(torch, changes.dtype) if changes.dtype else None
    for name in weights.names():
        if name == HEAD:
            continue
        tensor = weights[name]
        yield name, tensor.to(rounded(tensor.dtype, dtype))
    if changes.output_vocabulary or (not tied and HEAD in weights.names()):
        head = weights[_head_of(weights)][: changes.output_vocabulary]
        yield HEAD, head.to(rounded(head.dtype, dtype))


def _write_shards(
    weights: Weights, target: Path, changes: Changes, tied: bool, shard_bytes: int
) -> None:
    shards: list[dict[str, str]] = []
    held: dict[str, torch.Tensor] = {}
    total = size = 0
    for name, tensor in _converted(weights, changes, tied):
        if held and size + tensor.nbytes > shard_bytes:
            shards.append(_save(held, target, len(shards)))
            held, size = {}, 0
        held[name] = tensor.contiguous().clone()
        size, total = size + tensor.nbytes, total + tensor.nbytes
    shards.append(_save(held, target, len(shards)))
    _name(shards, target, total)


def _save(tensors: Mapping[str, torch.Tensor], target: Path, number: int) -> dict[str, str]:
    file = f"part-{number}.safetensors"
    try:
        save_file(dict(tensors), target / file, {"format": "pt"})
    except SafetensorError as fault:
        raise _of_system(fault, target / file) from None
    return dict.fromkeys(tensors, file)


def _of_system(fault: SafetensorError, path: Path) -> Exception:
    """The system's fault that safetensors tells in words, such as a full disk; else `fault`."""
    found = _SYSTEM.search(str(fault))
    if not found:
        return fault
    number = int(found[1])
    return OSError(number, os.strerror(number), str(path))


def _name(shards: list[dict[str, str]], target: Path, total: int) -> None:
    """Give the shards the names by which loaders know them, and write their index."""
    if len(shards) == 1:
        (target / "part-0.safetensors").rename(target / "model.safetensors")
        return
    listed: dict[str, str] = {}
    for number, names in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        (target / f"part-{number}.safetensors").rename(target / file)
        listed |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(listed.items()))}
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
