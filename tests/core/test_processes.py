"""Leases, the warden and local jobs, with real processes that are really killed."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from posttrain.launchers import launcher
from posttrain.launchers.local import LocalLauncher
from posttrain.lease import held, holder
from posttrain.store import Store
from posttrain.warden import VARIABLE, Warden, marked, sweep
from tests.waiting import eventually

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]

CONTROLLER = """
import subprocess, sys, time
from posttrain.warden import Warden
with Warden(sys.argv[1]):
    code = "import os, time; os.fork() or os.setsid(); time.sleep(60)"
    subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
    time.sleep(0.5)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_who_merely_looks_at_a_lease_keeps_no_run_from_starting(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with held(store, "r"):
        pass
    with (tmp_path / "runs/r/lease.json").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)  # As `posttrain stalls` does for an instant.
        threading.Timer(0.2, fcntl.flock, (stream.fileno(), fcntl.LOCK_UN)).start()
        with held(store, "r"):
            seen = holder(store, "r")
    assert seen is not None
    assert seen.held
    with held(store, "r"), pytest.raises(ValueError, match="run r is already going on"):
        held(store, "r").__enter__()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_controller_leaves_no_process(number: signal.Signals) -> None:
    token = uuid.uuid4().hex
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, token], stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == "ready\n"
    assert len(marked(token)) >= 2
    controller.send_signal(number)
    controller.wait(10)
    controller.stdout.close()
    assert eventually(lambda: not marked(token))


def test_the_warden_ends_what_is_left_on_a_normal_exit() -> None:
    token = uuid.uuid4().hex
    with Warden(token):
        child = subprocess.Popen(SLEEPER)
        assert eventually(lambda: child.pid in marked(token))
    assert child.wait(10) == -signal.SIGKILL
    assert VARIABLE not in os.environ


def test_sweep_spares_other_runs() -> None:
    mine, other = uuid.uuid4().hex, uuid.uuid4().hex
    environment = {**os.environ, VARIABLE: other}
    bystander = subprocess.Popen(SLEEPER, env=environment)
    try:
        assert eventually(lambda: bystander.pid in marked(other))
        assert sweep(mine) == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(10)


def test_a_run_has_one_controller_at_a_time(store: Store) -> None:
    refused = pytest.raises(ValueError, match=f"going on .process {os.getpid()}")
    with held(store, "r"), refused, held(store, "r"):
        raise AssertionError("the lease was given twice")
    with held(store, "r") as token:
        assert len(token) == 32


def test_runs_do_not_block_each_other(store: Store) -> None:
    with held(store, "a") as one, held(store, "b") as other:
        assert one != other


def test_the_next_controller_clears_what_a_dead_one_left(store: Store) -> None:
    with held(store, "r") as token:
        orphan = subprocess.Popen(SLEEPER, env={**os.environ, VARIABLE: token})
        assert eventually(lambda: orphan.pid in marked(token))
        store.draft("r", "s", "k")
    with held(store, "r"):
        assert orphan.wait(10) == -signal.SIGKILL
        assert not list((store.root / "drafts").iterdir())


@pytest.mark.parametrize("junk", ['{"pid": 1, "tok', "[]", "{}", "\xff"])
def test_a_lease_that_cannot_be_read_is_taken_over(store: Store, junk: str) -> None:
    folder = store.root / "runs" / "r"
    folder.mkdir(parents=True)
    (folder / "lease.json").write_text(junk)
    with held(store, "r") as token:
        assert token


def test_a_job_runs_logs_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "job.log"
    job = LocalLauncher().submit([sys.executable, "-c", "print('hello')"], tmp_path, log)
    assert eventually(lambda: not job.running())
    assert log.read_text() == "hello\n"


def test_cancel_ends_a_job_that_ignores_sigterm(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True);"
        " time.sleep(60)"
    )
    job = LocalLauncher().submit([sys.executable, "-c", stubborn], tmp_path, tmp_path / "log")
    assert eventually(lambda: (tmp_path / "log").read_text() == "on\n")
    job.cancel(grace=0.3)
    assert not job.running()


def test_a_running_job_is_adopted_and_an_ended_one_is_not(tmp_path: Path) -> None:
    started = LocalLauncher().submit(SLEEPER, tmp_path, tmp_path / "log")
    adopted = LocalLauncher().adopt(tmp_path)
    assert adopted is not None
    assert adopted.running()
    adopted.cancel(grace=1)
    assert not started.running()
    assert LocalLauncher().adopt(tmp_path) is None
    assert LocalLauncher().adopt(tmp_path / "nowhere") is None


def test_a_reused_process_id_is_not_taken_for_the_job(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(f'{{"pid": {os.getpid()}, "started": "1"}}')
    assert LocalLauncher().adopt(tmp_path) is None


@pytest.mark.parametrize("junk", ["", "[]", '{"pid": 1}', "null"])
def test_a_damaged_handle_is_named(tmp_path: Path, junk: str) -> None:
    (tmp_path / "job.json").write_text(junk)
    with pytest.raises(ValueError, match=r"job.json is damaged"):
        LocalLauncher().adopt(tmp_path)


def test_an_unknown_launcher_is_named() -> None:
    with pytest.raises(ValueError, match="unknown launcher 'pbs'; known launchers: local"):
        launcher("pbs")
