"""The shards that the ranks of an FSDP run leave, put together to full tensors.

Always holds: what is read is whole. A rank that is not there, or whose file is cut short, is an
error.
"""

import re
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor, Shard

_RANK = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")


def present(folder: Path) -> bool:
    """Whether `folder` holds ranks' shards."""
    return any(map(_rank_of, folder.iterdir()))


def _rank_of(path: Path) -> "re.Match[str] | None":
    return _RANK.fullmatch(path.name)


def whole(folder: Path) -> dict[str, torch.Tensor]:
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
