"""The weights of a checkpoint folder, tensor by tensor, however they are kept.

Always holds: what is read is whole. A shard that is missing, cut short, not listed or listed in
vain is an error, and so is a rank that is not there; an adapter beside the weights is part of them.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from posttrain.conversion import megatron, shards

_INDEX = "model.safetensors.index.json"
_ADAPTER = "adapter_model.safetensors"
_PART = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")

Tensors = Mapping[str, torch.Tensor]


class Weights:
    """Names and tensors of a folder; a tensor is read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ranks = _of_ranks(folder)
        self._files = _files(folder) if self._ranks is None else {}
        self._adapter = _adapter(folder, self.names())

    def names(self) -> list[str]:
        """All tensor names, sorted."""
        return sorted(self._files if self._ranks is None else self._ranks)

    def __getitem__(self, name: str) -> torch.Tensor:
        tensor = self._ranks[name] if self._ranks is not None else self._read(name)
        if update := self._adapter.get(name):
            low, high, scale = update
            tensor = (tensor.float() + scale * (high.float() @ low.float())).to(tensor.dtype)
        return tensor

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Name and tensor of each, one at a time."""
        return ((name, self[name]) for name in self.names())

    def _read(self, name: str) -> torch.Tensor:
        with safe_open(self._files[name], "pt") as stream:
            tensor: torch.Tensor = stream.get_tensor(name)
            return tensor


def _of_ranks(folder: Path) -> dict[str, torch.Tensor] | None:
    """What the ranks of a run left, put together; None if none did."""
    if shards.present(folder):
        return shards.whole(folder)
    return megatron.whole(folder, folder / "huggingface") if megatron.present(folder) else None


def rounded(dtype: torch.dtype, wanted: torch.dtype | None) -> torch.dtype:
    """`wanted` for floats, if any is; other types stay."""
    return wanted if wanted is not None and dtype.is_floating_point else dtype


def _files(folder: Path) -> dict[str, Path]:
    """Tensor name -> file, checked against the index where there is one."""
    index = folder / _INDEX
    shards = sorted(p for p in folder.glob("*.safetensors") if p.name != _ADAPTER)
    found: dict[str, Path] = {}
    for shard in shards:
        for name in _names(shard):
            if name in found:
                raise ValueError(f"{folder}: {name} is in {found[name].name} and in {shard.name}")
            found[name] = shard
    if index.is_file():
        listed: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
        for name in sorted(listed.keys() | found.keys()):
            held, said = getattr(found.get(name), "name", "no shard"), listed.get(name, "no shard")
            if held != said:
                raise ValueError(
                    f"{folder} is not whole: its index has {name} in {said}, it is in {held}"
                )
    if not found:
        raise ValueError(f"{folder} has no weights: neither *.safetensors nor shards of ranks")
    return found


def _names(shard: Path) -> list[str]:
    try:
        with safe_open(shard, "pt") as stream:
            return list(stream.keys())
    except (SafetensorError, OSError) as fault:
        raise ValueError(f"{shard} cannot be read, it is cut short or damaged: {fault}") from None


def _adapter(folder: Path, names: list[str]) -> dict[str, tuple[torch.Tensor, torch.Tensor, float]]:
    """Tensor name -> (A, B, scale) of the low-rank update beside the weights."""
    path = folder / _ADAPTER
    if not path.is_file():
        return {}
    config: dict[str, Any] = json.loads((folder / "adapter_config.json").read_bytes())
    rank = config["r"]
    scale = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
    sides: dict[str, dict[str, torch.Tensor]] = {}
    with safe_open(path, "pt") as stream:
        for key in stream.keys():  # noqa: SIM118  # It is no mapping.
            part = _PART.fullmatch(key)
            if not part or f"{part['module']}.weight" not in names:
                raise ValueError(f"{path}: {key} belongs to no tensor of the weights")
            sides.setdefault(f"{part['module']}.weight", {})[part["side"]] = stream.get_tensor(key)
    return {name: (found["A"], found["B"], scale) for name, found in sides.items()}
