import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray.exceptions
from torch._C._distributed_c10d import TCPStore

from posttrain.backends import profile
from posttrain.rl import session
from posttrain.rl.config import LimitsConfig, Place, RlConfig, overrides
from posttrain.rl.ledger import Events
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


def _runner(folder: Path, **limits: float) -> session.Runner:
    config = RlConfig.model_validate(
        {"sources": {"sums": {"data": "sums", "verifier": "answer"}}, "group": 2,
         "prompts_per_step": 1, "steps": 1, "limits": limits}
    )  # fmt: skip
    place = Place(folder / "start/model", folder, None, seed=1)
    runner = session.Runner(config, place)
    runner._ledger = session.opened(config, place)
    return runner


def test_the_runner_hands_over_each_report_once(tmp_path: Path) -> None:
    runner = _runner(tmp_path)
    runner._report(1, {"reward": 0.1})
    assert [step for step, _ in runner.pulse().reports] == [1]
    assert runner.pulse().reports == []
    assert runner.pulse().idle < 60


def test_the_runner_keeps_each_sign_and_counts_verdicts_towards_its_limit(tmp_path: Path) -> None:
    runner = _runner(tmp_path, unverifiable=0.001)
    runner._ledger.note("issued", prompt=0, row=4, source="sums", version=0)
    for response in range(2):
        runner.generating(0)
        runner.generated(0, response, 7, [0, 1])
        runner.scored(0, response, "sums", "scored", "unverifiable", 0.0, 0.5)
    assert [event["event"] for event in list(Events(tmp_path / "ledger.jsonl"))] == [
        "begun", "issued", "generating", "generated", "scored", "generated", "scored"
    ]  # fmt: skip
    assert runner._ledger.account.in_flight("sums") == {"ready": 1}
    assert runner._tally.metrics()["verdicts.sums.scored.unverifiable"] == 2.0
    with pytest.raises(RuntimeError, match="source sums: 2 of the last 2"):
        runner._tally.check()


def test_equal_runs_in_different_places_have_equal_configs(tmp_path: Path) -> None:
    texts = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        runner = _runner(tmp_path / name)
        composed = session.compose(overrides(runner._config, runner._place, profile("cpu")))
        texts.append(session.written(composed, runner._place))
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
    assert "max_off_policy_threshold: 2" in texts[0]
