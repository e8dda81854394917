"""Muon in the parameters' own precision: momentum, then an orthogonalised update.

torch.optim.Muon runs Newton-Schulz in bfloat16, which CPUs without native bfloat16 do some
twenty times slower than float32. Matrices of one shape are orthogonalised in one batch. With
sharded parameters (DTensor) an update is computed from the full gradient, as the method needs.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate

_QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrices: torch.Tensor, iterations: int) -> torch.Tensor:
    """Newton-Schulz on (n, rows, columns), rows <= columns: singular values end near 1."""
    a, b, c = _QUINTIC
    x: torch.Tensor = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """Muon for two-dimensional parameters; steps are scaled by sqrt(max(1, rows / columns))."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float,
        iterations: int,
        decay: float,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "iterations": iterations, "decay": decay}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update; a closure is not supported."""
        assert closure is None
        for group in self.param_groups:
            for parameters in _by_shape(group["params"]):
                directions = [self._direction(parameter, group) for parameter in parameters]
                updates = orthogonalise(torch.stack(directions), group["iterations"])
                for parameter, update in zip(parameters, updates, strict=True):
                    _apply(parameter, update, group)

    def _direction(self, parameter: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        """Nesterov momentum of the full gradient, lying down (rows <= columns)."""
        state, gradient = self.state[parameter], _local(parameter.grad)
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        average = _local(state["momentum"]).lerp_(gradient, 1 - group["momentum"])
        direction = _whole(gradient.lerp(average, group["momentum"]), parameter)
        return direction.mT if parameter.shape[0] > parameter.shape[1] else direction


def _by_shape(parameters: list[torch.nn.Parameter]) -> Iterable[list[torch.nn.Parameter]]:
    """Parameters that have a gradient, grouped by shape up to transposition."""
    groups: dict[tuple[int, int], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            rows, columns = parameter.shape
            groups.setdefault((min(rows, columns), max(rows, columns)), []).append(parameter)
    return groups.values()


def _apply(parameter: torch.Tensor, update: torch.Tensor, group: dict[str, Any]) -> None:
    rows, columns = parameter.shape
    if rows > columns:
        update = update.mT
    local = _local(parameter)
    local.mul_(1 - group["lr"] * group["decay"])
    local.add_(_part(update, parameter), alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


def _local(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _whole(local: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The full matrix of which `local` is this rank's shard, sharded as `like` is."""
    if not isinstance(like, DTensor) or like.device_mesh.size() == 1:
        return local
    sharded = DTensor.from_local(
        local, like.device_mesh, like.placements, shape=like.shape, stride=like.stride()
    )
    return sharded.full_tensor()


def _part(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's shard of the full matrix `whole`, sharded as `like` is."""
    if not isinstance(like, DTensor) or like.device_mesh.size() == 1:
        return whole
    replicated = [Replicate()] * like.device_mesh.ndim
    full = DTensor.from_local(whole.contiguous(), like.device_mesh, replicated)
    return full.redistribute(placements=like.placements).to_local()
