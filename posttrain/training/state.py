"""The training state of an engine, sharded as its model is: saved by any number of ranks, read by
any other.

After a crash at any instant the state is the old or the new one: a folder is written whole before
the pointer to it is replaced. What comes back is bit for bit what was saved. The tensors are
torch's distributed checkpoint format.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from posttrain.store import write_durably
from posttrain.training.optimizers import Optimizers

_POINTER = "state.json"
_REST = "rest.pt"


def begun(work: Path) -> bool:
    """Whether `work` has a state."""
    return (work / _POINTER).is_file()


def save(work: Path, step: int, module: torch.nn.Module, optimizer: Optimizers, rest: Any) -> None:
    """Replace the state in `work` by this one; call it on every rank. `rest` is rank 0's."""
    folder = work / f"state-{step}"
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    dist.barrier()
    groups = optimizer.state_dict()
    for part in groups["parts"]:
        part.pop("state")
    state_dict_saver.save(_model(module) | dict(_moments(module, optimizer)), checkpoint_id=folder)
    if dist.get_rank() == 0:
        torch.save({"groups": groups, "rest": rest}, folder / _REST)
        write_durably(work / _POINTER, json.dumps({"folder": folder.name}))
        for old in work.glob("state-*"):
            if old != folder:
                shutil.rmtree(old)
    dist.barrier()


def load(work: Path, module: torch.nn.Module, optimizer: Optimizers) -> Any:
    """Put the state in `work` into the model and the optimizer; its `rest`, None without one."""
    pointer = work / _POINTER
    if not pointer.is_file():
        return None
    folder = work / json.loads(pointer.read_text())["folder"]
    kept = torch.load(folder / _REST, weights_only=True)
    found = _model(module) | _empty(folder, module)
    state_dict_loader.load(found, checkpoint_id=folder)
    states = _by_parameter(module, optimizer, found)
    for part, state in zip(kept["groups"]["parts"], states, strict=True):
        part["state"] = state
    optimizer.load_state_dict(kept["groups"])
    return kept["rest"]


def _model(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers themselves, so that loading fills them in place."""
    return {f"model/{name}": tensor for name, tensor in module.state_dict().items()}


def _named(module: torch.nn.Module, optimizer: Optimizers) -> Iterator[list[tuple[int, str]]]:
    """For each part of the optimizer the numbers and names of its parameters."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    for part in optimizer.parts:
        parameters = [each for group in part.param_groups for each in group["params"]]
        yield [(number, names[each]) for number, each in enumerate(parameters)]


def _moments(module: torch.nn.Module, optimizer: Optimizers) -> Iterator[tuple[str, torch.Tensor]]:
    for part, named in zip(optimizer.parts, _named(module, optimizer), strict=True):
        state = part.state_dict()["state"]
        for number, name in named:
            for kind, tensor in state.get(number, {}).items():
                yield f"optimizer/{name}/{kind}", tensor


def _empty(folder: Path, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A place for every tensor of the saved optimizer, sharded as its parameter is."""
    stored = FileSystemReader(folder).read_metadata().state_dict_metadata
    parameters, found = dict(module.named_parameters()), {}
    for key, about in stored.items():
        if key.startswith("optimizer/"):
            assert isinstance(about, TensorStorageMetadata)
            parameter = parameters[key.split("/")[1]]
            alike = about.size == parameter.shape
            kind = about.properties.dtype
            found[key] = (
                torch.empty_like(parameter, dtype=kind, requires_grad=False)
                if alike
                else torch.empty(about.size, dtype=kind)
            )
    return found


def _by_parameter(
    module: torch.nn.Module, optimizer: Optimizers, found: Mapping[str, torch.Tensor]
) -> list[dict[int, dict[str, torch.Tensor]]]:
    """The optimizer's tensors as the parts' `load_state_dict` takes them."""
    kept: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in found.items():
        if key.startswith("optimizer/"):
            _, name, kind = key.split("/")
            kept.setdefault(name, {})[kind] = tensor
    return [
        {number: kept[name] for number, name in named if name in kept}
        for named in _named(module, optimizer)
    ]
