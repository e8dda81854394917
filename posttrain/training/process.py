"""What a training loop takes of its process and gives back: a process group and threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

_GROUPS = {"cpu": "cpu:gloo", "gpu": "cpu:gloo,cuda:nccl"}


@contextmanager
def single_process_group(backend: str) -> Iterator[None]:
    """The default group with this process as its only member; `backend` is `cpu` or `gpu`.

    ValueError if a group exists already. A HashStore needs neither port nor file.
    """
    if dist.is_initialized():
        raise ValueError("this process belongs to a process group already; start a fresh process")
    dist.init_process_group(_GROUPS[backend], store=HashStore(), rank=0, world_size=1)
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
