from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from posttrain.training.muon import Muon, orthogonalise
from posttrain.training.process import single_process_group

SETTINGS = {"lr": 0.1, "momentum": 0.9, "iterations": 5, "decay": 0.0}


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=25)
@given(rows=st.integers(2, 12), extra=st.integers(4, 20), seed=st.integers(0, 10_000))
def test_singular_values_end_near_one(rows: int, extra: int, seed: int) -> None:
    matrices = _random(3, rows, rows + extra, seed=seed)
    values = torch.linalg.svdvals(orthogonalise(matrices, 6))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_a_batch_is_each_matrix_alone() -> None:
    matrices = _random(4, 6, 10)
    alone = torch.cat([orthogonalise(one[None], 4) for one in matrices])
    torch.testing.assert_close(orthogonalise(matrices, 4), alone)


def test_the_first_step_is_the_orthogonalised_gradient() -> None:
    gradient, start = _random(4, 8), torch.zeros(4, 8)
    parameter = torch.nn.Parameter(start.clone())
    parameter.grad = gradient.clone()
    Muon([parameter], **SETTINGS).step()
    torch.testing.assert_close(parameter.detach(), -0.1 * orthogonalise(gradient[None], 5)[0])


def test_a_tall_matrix_steps_as_its_transpose_scaled_by_its_shape() -> None:
    wide, tall = torch.nn.Parameter(torch.zeros(4, 16)), torch.nn.Parameter(torch.zeros(16, 4))
    wide.grad = _random(4, 16)
    tall.grad = wide.grad.mT.contiguous()
    Muon([wide, tall], **SETTINGS).step()
    torch.testing.assert_close(tall.detach(), 2 * wide.detach().mT)


def test_decay_is_decoupled() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, 8))
    parameter.grad = torch.zeros(4, 8)
    Muon([parameter], **SETTINGS | {"decay": 0.5}).step()
    torch.testing.assert_close(parameter.detach(), torch.full((4, 8), 0.95))


@pytest.mark.parametrize("shape", [(6, 10), (10, 6)])
def test_a_sharded_parameter_steps_as_a_plain_one(shape: tuple[int, int]) -> None:
    plain = torch.nn.Parameter(_random(*shape))
    with single_process_group("cpu"):
        mesh = init_device_mesh("cpu", (1,))
        sharded = torch.nn.Parameter(DTensor.from_local(plain.detach().clone(), mesh, [Shard(0)]))
        pair = [Muon([one], **SETTINGS) for one in (plain, sharded)]
        for seed in range(3):
            plain.grad = _random(*shape, seed=seed)
            sharded.grad = DTensor.from_local(plain.grad.clone(), mesh, [Shard(0)])
            for optimizer in pair:
                optimizer.step()
        assert torch.equal(sharded.to_local(), plain)


def test_shards_on_two_processes_step_as_one(tmp_path: Path) -> None:
    shape = (7, 4)  # Rows that two processes cannot share evenly.
    whole = torch.nn.Parameter(_random(*shape))
    optimizer = Muon([whole], **SETTINGS)
    for seed in range(2):
        whole.grad = _random(*shape, seed=seed)
        optimizer.step()
    torch.multiprocessing.spawn(_rank, (shape, str(tmp_path)), nprocs=2)
    found = torch.load(tmp_path / "whole.pt", weights_only=True)
    torch.testing.assert_close(found, whole.detach())


def _rank(rank: int, shape: tuple[int, int], folder: str) -> None:
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("cpu:gloo", store=store, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    sharded = torch.nn.Parameter(distribute_tensor(_random(*shape), mesh, [Shard(0)]))
    optimizer = Muon([sharded], **SETTINGS)
    for seed in range(2):
        sharded.grad = distribute_tensor(_random(*shape, seed=seed), mesh, [Shard(0)])
        optimizer.step()
    full = sharded.full_tensor()
    if rank == 0:
        torch.save(full.detach(), f"{folder}/whole.pt")
    dist.destroy_process_group()
