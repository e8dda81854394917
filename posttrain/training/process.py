"""What a training loop takes of its process and gives back: a process group and threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, HashStore, Store

_GROUPS = {"cpu": "cpu:gloo", "gpu": "cpu:gloo,cuda:nccl"}
_TIMEOUT = timedelta(minutes=10)
"""Of a collective: a rank that has not come by then is lost."""


@contextmanager
def single_process_group(backend: str) -> Iterator[None]:
    """The default group with this process as its only member; `backend` is `cpu` or `gpu`.

    ValueError if a group exists already. A HashStore needs neither port nor file.
    """
    with _group(backend, HashStore(), 0, 1):
        yield


@contextmanager
def process_group(backend: str, rendezvous: Path, rank: int, size: int) -> Iterator[None]:
    """The default group of `size` processes of this machine that meet at the file `rendezvous`."""
    if backend == "gpu":
        torch.cuda.set_device(rank)
    with _group(backend, FileStore(str(rendezvous), size), rank, size):
        yield


@contextmanager
def _group(backend: str, store: Store, rank: int, size: int) -> Iterator[None]:
    if dist.is_initialized():
        raise ValueError("this process belongs to a process group already; start a fresh process")
    dist.init_process_group(
        _GROUPS[backend], store=store, rank=rank, world_size=size, timeout=_TIMEOUT
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch computes with `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
