"""A process group of one, for engines that need a group where no launcher made one.

It exists only inside the `with` block: afterwards the process can start another, or none.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_process_group(backend: str) -> Iterator[None]:
    """The default group with this process as its only member; `backend` is `gloo` or `nccl`.

    ValueError if a group exists already. A HashStore needs neither port nor file.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        raise ValueError("this process belongs to a process group already; start a fresh process")
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()
