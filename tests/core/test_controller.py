"""Runs that are disturbed from outside: signals, a second controller, services that die."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.journal import Journal
from posttrain.recipe.schema import RewardService
from posttrain.services import Rewards, ServiceFailed
from posttrain.store import Store
from posttrain.warden import marked
from tests.core.runs import write
from tests.waiting import eventually

PROGRAM = "import tests.core.probe; from posttrain.cli import main; main()"


class Run:
    """A run of the probe stage, and its controller."""

    def __init__(self, folder: Path, verifiers: str = "answer") -> None:
        self.folder = folder
        self.go = folder / "go"
        self.store = Store(folder / "store")
        self.journal = Journal(self.store, "probed")
        write(
            folder,
            "recipe: probed\nseed: 1\nbackend: cpu\n"
            f"services: {{rewards: {{verifiers: [{verifiers}]}}}}\n"
            f"stages: {{probe: {{kind: probe, go: {self.go}}}}}\n",
        )

    def start(self) -> "subprocess.Popen[str]":
        """A controller; what it says goes to the pipes."""
        line = [sys.executable, "-c", PROGRAM, "run", "r.yaml", "--store", str(self.store.root)]
        return subprocess.Popen(
            line, cwd=self.folder, env={**os.environ, "PYTHONPATH": os.getcwd()},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def started(self) -> "subprocess.Popen[str]":
        """A controller whose stage waits."""
        self.journal.progress("probe").unlink(missing_ok=True)
        controller = self.start()
        waits = eventually(lambda: self.journal.latest("probe") is not None, 90)
        assert waits or controller.kill(), controller.communicate()
        return controller

    def processes(self, words: bytes = b"") -> list[int]:
        """Processes of this run, or those whose command line holds `words`."""
        token = (self.store.root / "runs/probed/lease.json").read_text().split('"')[-2]
        return [
            pid
            for pid in marked(token)
            if words in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        ]


def test_signals_end_a_run_cleanly_and_a_service_that_dies_is_replaced(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for number in (signal.SIGINT, signal.SIGTERM):
        controller = run.started()
        if number == signal.SIGINT:
            second = run.start()
            out, err = second.communicate(timeout=60)
            assert (second.returncode, err.count("\n")) == (2, 1)
            assert f"already going on (process {controller.pid} on" in err
        controller.send_signal(number)
        out, err = controller.communicate(timeout=60)
        assert (controller.returncode, err) == (
            1, "error: interrupted; run the same command again to continue (E102)\n",
        )  # fmt: skip
        assert not run.processes()
        assert not list(run.store.artifacts())
    controller = run.started()
    (service,) = run.processes(b"-m rewards serve")
    os.kill(service, signal.SIGKILL)
    run.go.touch()
    out, err = controller.communicate(timeout=120)
    assert (controller.returncode, err) == (0, "")
    assert "probe: committed as probed/probe@1" in out
    assert run.store.get("probed/probe@1").record.metrics == {"score": 1.0}
    assert [e["stage"] for e in run.journal.events() if e["event"] == "service restarted"] == [
        "rewards"
    ]
    assert not run.processes()


def test_a_service_that_cannot_start_fails_the_machine(tmp_path: Path) -> None:
    run = Run(tmp_path, verifiers="nonsense=a, nonsense=b")
    controller = run.start()
    _, err = controller.communicate(timeout=90)
    assert controller.returncode == 4
    assert err.startswith("error: the reward service ended at its start: rewards: ")
    assert err.count("\n") == 1
    assert "nonsense" in (run.store.root / "runs/probed/logs/rewards.log").read_text()


@pytest.fixture
def folders(store: Store) -> Store:
    """A store with the folders of a run that began."""
    Journal(store, "r").begin({})
    return store


def rewards(store: Store, *verifiers: str) -> Rewards:
    return Rewards(RewardService(verifiers=verifiers), store, "r")


def test_a_service_that_died_is_started_again_on_its_port(folders: Store) -> None:
    service = rewards(folders, "answer")
    service.start()
    try:
        assert not service.await_ready()
        url = service.url
        assert service._process is not None
        os.kill(service._process.pid, signal.SIGKILL)
        service._process.wait(10)
        assert service.await_ready()
        assert service.url == url
    finally:
        service.stop()


def test_a_service_that_never_listened_is_not_tried_again(folders: Store) -> None:
    service = rewards(folders, "nonsense=a", "nonsense=b")
    service.start()
    with pytest.raises(ServiceFailed, match=r"ended at its start: .*nonsense.*; see .*rewards.log"):
        service.await_ready()
    with pytest.raises(ServiceFailed, match="ended at its start"):
        service.supervise()


def test_a_service_of_others_that_does_not_answer_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posttrain.services._READY_WITHIN", 0.3)
    service = Rewards(RewardService(verifiers=("answer",), url="http://127.0.0.1:9"), store, "r")
    service.start()
    with pytest.raises(ServiceFailed, match=r"127.0.0.1:9 was not ready .* started elsewhere"):
        service.await_ready()
