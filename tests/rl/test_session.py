import socket
from collections.abc import Callable
from typing import Any

import pytest
import ray.exceptions
from torch._C._distributed_c10d import TCPStore

from posttrain.rl import session
from posttrain.rl.config import LimitsConfig
from posttrain.rl.session import Pulse, RunLostError


def test_a_lost_process_is_told_from_a_reason() -> None:
    lost = session._explained(ray.exceptions.ActorDiedError())
    assert isinstance(lost, RunLostError)
    assert "a process of the run was lost (ActorDiedError)" in str(lost)
    reason = RuntimeError("17 of the last 64 groups were lost to faults")
    wrapped = ray.exceptions.RayTaskError("run", "", reason)
    assert session._explained(ray.exceptions.RayTaskError("outer", "", wrapped)) is reason


def _listens_by_socket(port: int) -> None:
    socket.create_server(("127.0.0.1", port))


def _listens_by_store(port: int) -> None:
    TCPStore("127.0.0.1", port, is_master=True)


@pytest.mark.parametrize("listens", [_listens_by_socket, _listens_by_store])
def test_a_port_taken_before_verl_listened_on_it_is_tried_again(
    listens: Callable[[int], None],
) -> None:
    """A smoke run ended for good when another process took the trainer's rendezvous port."""
    with (
        socket.create_server(("127.0.0.1", 0)) as held,
        pytest.raises((OSError, RuntimeError)) as taken,
    ):
        listens(held.getsockname()[1])
    fault = ray.exceptions.RayTaskError("run", "", taken.value)
    assert isinstance(session._explained(fault), RunLostError)


class _Runner:
    """Stands for the runner's handle."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = self
        self._pulse = pulse

    def remote(self) -> Any:
        return self._pulse


def test_reports_pass_and_silence_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.ray, "get", lambda value, timeout: value)
    seen: list[int] = []
    limits = LimitsConfig(silence=5)

    def listen(idle: float) -> None:
        runner = _Runner(Pulse([(3, {"reward": 0.5})], idle))
        session._listen(runner, limits, lambda step, metrics: seen.append(step))

    listen(idle=4.0)
    with pytest.raises(RunLostError, match="nothing happened for 6 s"):
        listen(idle=6.0)
    assert seen == [3, 3]


def test_the_runner_hands_over_each_report_once() -> None:
    runner = session.Runner(LimitsConfig())
    runner._report(1, {"reward": 0.1})
    assert [step for step, _ in runner.pulse().reports] == [1]
    assert runner.pulse().reports == []
    assert runner.pulse().idle < 60


def test_the_runner_counts_verdicts_towards_its_limit() -> None:
    runner = session.Runner(LimitsConfig(unverifiable=0.001))
    for _ in range(2):
        runner.count("sums", "scored", "unverifiable")
    assert runner._tally.metrics() == {"verdicts.sums.scored.unverifiable": 2.0}
    with pytest.raises(RuntimeError, match="source sums: 2 of the last 2"):
        runner._tally.check()
