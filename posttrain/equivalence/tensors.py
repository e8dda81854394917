"""Comparing two sets of weights tensor by tensor, by digest."""

import hashlib
from collections.abc import Iterator

import torch

from posttrain.conversion.model import HEAD, Effective
from posttrain.conversion.weights import rounded
from posttrain.equivalence.changes import Changes


def expected(source: Effective, name: str, changes: Changes) -> torch.Tensor:
    """What the target must hold under `name`."""
    tensor = source[name]
    if name == HEAD and changes.output_vocabulary:
        tensor = tensor[: changes.output_vocabulary]
    dtype: torch.dtype | None = getattr(torch, changes.dtype) if changes.dtype else None
    return tensor.to(rounded(tensor.dtype, dtype))


def faults(source: Effective, target: Effective, changes: Changes) -> Iterator[str]:
    """One line for each tensor that is missing, extra or not what it must be."""
    names = source.names()
    yield from (f"{name} is missing" for name in sorted(names - target.names()))
    yield from (f"{name} is extra" for name in sorted(target.names() - names))
    differing: dict[str, str] = {}
    originals: dict[str, str] = {}
    for name in sorted(names & target.names()):
        wanted, found = expected(source, name, changes), target[name]
        originals.setdefault(digest(wanted), name)
        if fault := _fault(wanted, found):
            yield f"{name} {fault}"
        elif digest(wanted) != (held := digest(found)):
            differing[name] = held
    for name, held in differing.items():
        other = f"; it holds those of {originals[held]}" if held in originals else ""
        yield f"{name} has other values{other}"


def _fault(wanted: torch.Tensor, found: torch.Tensor) -> str | None:
    if wanted.dtype != found.dtype:
        return f"is {found.dtype}, must be {wanted.dtype}"
    turned = wanted.dim() == 2 and found.shape == wanted.T.shape
    if turned and not torch.equal(wanted, found) and torch.equal(wanted.T, found):
        return "is transposed"
    if wanted.shape != found.shape:
        return f"has shape {tuple(found.shape)}, must have {tuple(wanted.shape)}"
    return None


def digest(tensor: torch.Tensor) -> str:
    """sha256 of type, shape and bytes."""
    total = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
    total.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
