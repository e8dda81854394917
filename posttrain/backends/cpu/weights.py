"""verl checkpoint engine over gloo: trained weights go to the rollout servers by broadcast.

The group lives for one sync: the trainer's rank 0 opens a store, every rollout worker joins, each
tensor is broadcast in turn, and the group is closed. Whoever is missing makes the others fail
within TIMEOUT; nothing waits longer.
"""

import pickle
import socket
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import (  # type: ignore[attr-defined]  # torch re-exports them silently
    PrefixStore,
    ProcessGroupGloo,
    TCPStore,
)
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

TIMEOUT = timedelta(seconds=60)
_SENDER = 0
_OUTSIDE = -1

_Header = tuple[str, tuple[int, ...], torch.dtype]
"""Name, shape and type of the tensor that follows."""


@CheckpointEngineRegistry.register("gloo")
class GlooCheckpointEngine(CheckpointEngine):  # type: ignore[misc]  # verl ships no types
    """One sender (trainer rank 0) and `size - 1` receivers; other trainer ranks only take part
    in gathering the weights."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._is_master = is_master
        self._store: TCPStore | None = None
        self._group: Any = None  # torch's stubs leave out the gloo group's methods
        self._rank = _OUTSIDE

    def prepare(self) -> dict[str, Any]:
        """Open the store on the sender; its address reaches the others through verl."""
        if not self._is_master:
            return {}
        host = socket.gethostbyname(socket.gethostname())
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)
        return {"host": host, "port": self._store.port}

    @classmethod
    def build_topology(
        cls,
        actor_wg_world_size: int,
        rollout_world_size: int,
        metadata: list[dict[str, Any]],
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Ranks: trainer 0 is 0, further trainers stay outside, rollout workers are 1..n."""
        address = next(each for each in metadata if each)

        def arguments(ranks: list[int]) -> dict[str, list[Any]]:
            count = len(ranks)
            return {
                "rank": ranks,
                "size": [rollout_world_size + 1] * count,
                "address": [(address["host"], address["port"])] * count,
            }

        trainers = [0] + [_OUTSIDE] * (actor_wg_world_size - 1)
        return arguments(trainers), arguments(list(range(1, rollout_world_size + 1)))

    def init_process_group(self, rank: int, size: int, address: tuple[str, int]) -> None:
        self._rank = rank
        if rank == _OUTSIDE:
            return
        if self._store is None:
            self._store = TCPStore(*address, is_master=False, timeout=TIMEOUT)
        self._group = ProcessGroupGloo(PrefixStore("weights", self._store), rank, size, TIMEOUT)

    def finalize(self) -> None:
        self._group = None
        self._store = None

    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> None:
        """Broadcast every tensor; all trainer ranks must consume `weights`, which gathers them."""
        for name, weight in weights:
            if self._group is not None:
                self._send((name, tuple(weight.shape), weight.dtype))
                self._group.broadcast(weight.detach().cpu().contiguous(), _SENDER).wait()
        if self._group is not None:
            self._send(None)

    async def receive_weights(
        self, global_steps: int | None = None
    ) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Yield (name, tensor) in the order sent."""
        assert self._group is not None
        while (header := self._receive()) is not None:
            name, shape, dtype = header
            weight = torch.empty(shape, dtype=dtype)
            self._group.broadcast(weight, _SENDER).wait()
            yield name, weight

    def _send(self, header: _Header | None) -> None:
        """Tell the receivers what comes next; None ends the sequence."""
        assert self._group is not None
        data = torch.frombuffer(bytearray(pickle.dumps(header)), dtype=torch.uint8)
        self._group.broadcast(torch.tensor([data.numel()]), _SENDER).wait()
        self._group.broadcast(data, _SENDER).wait()

    def _receive(self) -> _Header | None:
        assert self._group is not None
        size = torch.zeros(1, dtype=torch.int64)
        self._group.broadcast(size, _SENDER).wait()
        data = torch.empty(int(size), dtype=torch.uint8)
        self._group.broadcast(data, _SENDER).wait()
        header: _Header | None = pickle.loads(data.numpy().tobytes())
        return header
