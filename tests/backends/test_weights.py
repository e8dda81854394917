import asyncio
import threading
from collections.abc import Iterator

import pytest
import torch

from posttrain.backends.cpu import weights
from posttrain.backends.cpu.weights import GlooCheckpointEngine

SENT = {
    "embedding": torch.arange(6.0).reshape(2, 3),
    "scale": torch.tensor(0.5, dtype=torch.float64),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "half": torch.ones(4, dtype=torch.bfloat16),
}


def _sync(
    trainers: list[GlooCheckpointEngine], servers: list[GlooCheckpointEngine]
) -> list[dict[str, torch.Tensor]]:
    """One sync as verl's manager drives it, each engine in a thread of its own."""
    everyone = [*trainers, *servers]
    metadata = [engine.prepare() for engine in everyone]
    topology = GlooCheckpointEngine.build_topology(len(trainers), len(servers), metadata)
    received: list[dict[str, torch.Tensor]] = [{} for _ in servers]
    drained: list[int] = []

    def source() -> Iterator[tuple[str, torch.Tensor]]:
        yield from SENT.items()
        drained.append(1)

    async def receive(engine: GlooCheckpointEngine, into: dict[str, torch.Tensor]) -> None:
        async for name, tensor in engine.receive_weights():
            into[name] = tensor

    def take_part(engine: GlooCheckpointEngine, place: int) -> None:
        side, index = (0, place) if place < len(trainers) else (1, place - len(trainers))
        engine.init_process_group(**{key: each[index] for key, each in topology[side].items()})
        if side == 0:
            asyncio.run(engine.send_weights(source()))
        else:
            asyncio.run(receive(engine, received[index]))
        engine.finalize()

    threads = [
        threading.Thread(target=take_part, args=(engine, place))
        for place, engine in enumerate(everyone)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(drained) == len(trainers)
    return received


@pytest.mark.parametrize(("trainers", "servers"), [(1, 1), (1, 2), (2, 1)])
def test_every_server_receives_every_tensor(trainers: int, servers: int) -> None:
    senders = [GlooCheckpointEngine(1 << 20, is_master=rank == 0) for rank in range(trainers)]
    receivers = [GlooCheckpointEngine(1 << 20) for _ in range(servers)]
    for _ in range(2):  # a group lives for one sync
        for got in _sync(senders, receivers):
            assert list(got) == list(SENT)
            for name, tensor in SENT.items():
                assert got[name].dtype == tensor.dtype
                assert torch.equal(got[name], tensor)


def test_a_missing_sender_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "TIMEOUT", weights.TIMEOUT / 60)
    receiver = GlooCheckpointEngine(1 << 20)
    with pytest.raises(RuntimeError):
        receiver.init_process_group(rank=1, size=2, address=("127.0.0.1", 1))
