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
from torch.distributed.tensor import DTensor, Shard

_INDEX = "model.safetensors.index.json"
_RANK = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")
_ADAPTER = "adapter_model.safetensors"
_PART = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")

Tensors = Mapping[str, torch.Tensor]


class Weights:
    """Names and tensors of a folder; a tensor is read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ranks = _whole(folder) if any(map(_rank_of, folder.iterdir())) else None
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


def rounded(dtype: torch.dtype, wanted: torch.dtype | None) -> torch.dtype:
    """`wanted` for floats, if any is; other types stay."""
    return wanted if wanted is not None and dtype.is_floating_point else dtype


def _rank_of(path: Path) -> "re.Match[str] | None":
    return _RANK.fullmatch(path.name)


def _whole(folder: Path) -> dict[str, torch.Tensor]:
    """The full tensors of an FSDP checkpoint, put together from its ranks' shards."""
    found = {int(m[2]): (int(m[1]), m[0]) for path in folder.iterdir() if (m := _rank_of(path))}
    worlds = {world for world, _ in found.values()}
    world = max(worlds)
    if missing := sorted(set(range(world)) - found.keys()) or len(worlds) > 1:
        raise ValueError(f"{folder} is not whole: of {world} ranks' shards, {missing} are missing")
    ranks = [_loaded(folder / found[rank][1]) for rank in range(world)]
    if any(rank.keys() != ranks[0].keys() for rank in ranks):
        raise ValueError(f"{folder} is not whole: its ranks hold different tensors")
    return {name: _joined([rank[name] for rank in ranks]) for name in ranks[0]}


def _loaded(path: Path) -> dict[str, torch.Tensor]:
    try:
        # verl's shards are DTensors, which torch does not read without their classes.
        content: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=False)
    except (RuntimeError, EOFError, OSError) as fault:
        raise ValueError(f"{path} cannot be read, it is cut short or damaged: {fault}") from None
    return content


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    first = parts[0]
    if not isinstance(first, DTensor):
        return first
    local = [part._local_tensor for part in parts if isinstance(part, DTensor)]
    placement = first.placements[-1]
    whole = torch.cat(local, dim=placement.dim) if isinstance(placement, Shard) else local[0]
    if whole.shape != first.shape:
        raise ValueError(f"shards add up to {tuple(whole.shape)}, not {tuple(first.shape)}")
    return whole


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
