"""What falls silent is found, named and ended: real runs whose processes are stopped by SIGSTOP."""

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.controller import Attempt, Controller
from posttrain.journal import Journal, report_to
from posttrain.launchers.local import LocalLauncher
from posttrain.lease import held
from posttrain.liveness import Bounds, Stalled, Watch
from posttrain.reports import describe
from posttrain.rl.account import Account
from posttrain.rl.live import Live
from posttrain.signs import components, note
from posttrain.stages import Progress
from posttrain.stalls import Link, chain, lines, told
from posttrain.store import Store
from posttrain.warden import Warden, marked
from tests.core.executed import planned
from tests.core.runs import SMALL, ended, worker_of, write
from tests.core.test_controller import Run
from tests.waiting import eventually

STALLS = "stalls: {start: 90, floor: 5, ceiling: 8, service: 3, controller: 60, drain: 5}\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of the probe stage with short bounds."""
    found = Run(tmp_path)
    write(tmp_path, (tmp_path / "r.yaml").read_text() + STALLS)
    return found


def stalls(run: Run) -> dict[str, Any]:
    """What `posttrain stalls --json` says of it."""
    said = ended(run.folder, "stalls", "probed", "--json")
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_a_stopped_service_is_replaced_and_a_stopped_stage_ends_the_run(run: Run) -> None:
    controller = run.started()
    (service,) = run.processes(b"-m rewards serve")
    os.kill(service, signal.SIGSTOP)
    assert eventually(lambda: "service restarted" in {e["event"] for e in run.journal.events()}, 30)
    assert eventually(lambda: run.processes(b"-m rewards serve") not in ([], [service]), 10)
    assert eventually(lambda: stalls(run)["culprit"] is None, 60)

    worker = worker_of(run.journal, "probe")
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    shown = stalls(run)
    # What Ray itself is made of may be stopped too: that keeps no run from its end.
    for process in [*run.processes(b"raylet/raylet"), *run.processes(b"gcs_server")]:
        os.kill(process, signal.SIGSTOP)
    assert [link["name"] for link in shown["chain"]] == ["controller", "probe"]
    assert shown["culprit"] == "probe"
    assert f"kill -CONT {worker}" in shown["advice"]
    _, err = controller.communicate(timeout=90)
    assert controller.returncode == 4, err
    assert err.startswith("error: probe gave no sign of life for ")
    assert err.endswith(" (E402)\n")
    assert err.count("\n") == 1
    assert not run.processes()
    (event,) = [e for e in run.journal.events() if e["event"] == "stalled"]
    assert event["silence"] >= event["bound"] == 5
    assert "probe gave no sign of life" in ended(run.folder, "stalls", "probed").out
    assert "probe was silent for" in ended(run.folder, "status", "probed").out
    run.go.touch()
    _, err = run.start().communicate(timeout=120)
    assert ended(run.folder, "stalls", "probed").out == "probed has finished\n", err
    assert [artifact.address for artifact in run.store.artifacts()] == ["probed/probe@1"]


BEATING = """
import os, subprocess, sys, time
from posttrain.warden import Warden
with Warden(sys.argv[1], silence=3.0) as warden:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(90)"])
    print("ready", flush=True)
    while True:
        warden.beat()
        time.sleep(0.1)
"""


def test_a_stopped_controller_is_killed_with_all_it_started() -> None:
    token = uuid.uuid4().hex
    controller = subprocess.Popen(
        [sys.executable, "-c", BEATING, token], stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == "ready\n"
    assert eventually(lambda: len(marked(token)) == 1)
    os.kill(controller.pid, signal.SIGSTOP)
    assert controller.wait(30) == -signal.SIGKILL
    controller.stdout.close()
    assert eventually(lambda: not marked(token), 20)


STUCK = """
import subprocess, sys, time
from posttrain.warden import Warden
with Warden(sys.argv[1]) as warden:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(90)"])
    warden.end_within(0.5, "what fell silent\\n", 4)
    child.wait()
    time.sleep(90)
"""


def test_a_run_that_was_given_up_ends_even_where_its_end_hangs() -> None:
    token = uuid.uuid4().hex
    controller = subprocess.run(
        [sys.executable, "-c", STUCK, token], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert controller.returncode == 4
    assert controller.stderr == "what fell silent\n"
    assert eventually(lambda: not marked(token))


def links(*chosen: Link) -> dict[str, Link]:
    return {link.name: link for link in chosen}


def test_to_blame_is_who_waits_for_nobody_that_is_faulty() -> None:
    well = links(
        Link("controller", waits_for=("rl", "dpo")),
        Link("rl", waits_for=("rl/trainer",)),
        Link("rl/trainer", waits_for=("rl/rollouts",)),
        Link("rl/rollouts", waits_for=("rewards",)),
        Link("rewards"),
        Link("dpo"),
    )
    path = ["controller", "rl", "rl/trainer", "rl/rollouts", "rewards"]
    assert chain(well) == (path, None)
    dead = replace(well["rewards"], fault="does not answer")
    silent = replace(well["rl"], fault="silent for longer than its bound")
    assert chain(well | links(dead, silent)) == (path, "rewards")
    assert chain(well | links(silent)) == (["controller", "rl"], "rl")
    other = replace(well["dpo"], fault="process 7 is stopped")
    assert chain(well | links(other)) == (["controller", "dpo"], "dpo")


def test_who_waits_in_a_circle_is_named_once() -> None:
    circle = links(
        Link("controller", waits_for=("rl",)),
        Link("rl", waits_for=("rl/trainer",)),
        Link("rl/trainer", waits_for=("rl/rollouts",)),
        Link("rl/rollouts", waits_for=("rl/trainer",)),
    )
    assert chain(circle) == (["controller", "rl", "rl/trainer", "rl/rollouts"], None)


def test_components_and_what_they_wait_for_are_links(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    journal = Journal(store, "r")
    journal.begin({"promote": None, "stages": [], "stalls": Bounds(floor=50).model_dump()})
    journal.record("run started")
    journal.record("started", "rl")
    report_to(journal.progress("rl"), Progress(3, 9))
    work = journal.work("rl")
    work.mkdir(parents=True)
    note(work, "trainer", "waits for batch 4", waits_for="rollouts")
    note(work, "rollouts", "12 responses", waits_for="judge")
    with held(store, "r"):
        found = told(store, "r")
    names = [link["name"] for link in found["chain"]]
    assert names == ["controller", "rl", "rl/trainer", "rl/rollouts", "judge"]
    assert found["culprit"] is None
    said = "\n".join(lines(found))
    assert "waits for rl: train 3/9, last sign 0 s ago, bound 50 s" in said
    assert "nobody is to blame" in said
    assert told(store, "r")["going_on"] is False


@pytest.mark.parametrize(
    ("told_of", "chain_below"),
    [
        ([], ["rl/trainer", "rl/rollouts"]),
        (["generated"], ["rl/trainer", "rl/rollouts", "rl/verdicts", "rewards"]),
        (["generated", "scored"], ["rl/trainer"]),
    ],
)
def test_the_parts_of_an_rl_stage_tell_whose_move_it_is(
    tmp_path: Path, told_of: list[str], chain_below: list[str]
) -> None:
    store = Store(tmp_path / "store")
    journal = Journal(store, "r")
    journal.begin({"promote": None, "stages": []})
    journal.record("run started")
    journal.record("started", "rl")
    work = journal.work("rl")
    work.mkdir(parents=True)
    live, account = Live(work), Account()
    account.apply({"event": "begun", "prompts_per_step": 1, "group": 1, "seed": 1})
    account.apply({"event": "issued", "prompt": 0, "row": 0, "source": "sums", "version": 0})
    live.begin()
    live.waits(1)
    account.apply({"event": "generating", "prompt": 0})
    live.generated(account)
    if "generated" in told_of:
        account.apply({"event": "generated", "prompt": 0, "response": 0, "tokens": 3})
        live.generated(account)
    if "scored" in told_of:
        account.apply({"event": "scored", "prompt": 0, "response": 0, "status": "scored"})
        live.scored(account)
        live.updates(1)
    with held(store, "r"):
        found = told(store, "r")
    assert [link["name"] for link in found["chain"]] == ["controller", "rl", *chain_below]


def test_a_stopped_job_is_to_blame_for_its_stage(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    journal = Journal(store, "r")
    journal.begin({"promote": None, "stages": []})
    journal.record("run started")
    journal.record("started", "base")
    work = journal.work("base")
    work.mkdir(parents=True)
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    job = LocalLauncher().submit(sleeper, work, work / "log")
    try:
        with held(store, "r"):
            assert told(store, "r")["culprit"] is None
            os.kill(job.pid, signal.SIGSTOP)
            stopped = lambda: told(store, "r")["culprit"] == "base/job"  # noqa: E731
            assert eventually(stopped, 10)
            assert f"kill -CONT {job.pid}" in told(store, "r")["advice"]
    finally:
        job.cancel(grace=0.1)


def test_a_silent_component_ends_the_run_unless_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(write(tmp_path, SMALL + "stalls: {start: 99, floor: 50, ceiling: 60}\n"))
    store = Store(tmp_path / "store")
    Journal(store, "small").begin(describe(plan))
    controller = Controller(plan, store, 2, lambda controller: None, Warden("t"))
    attempt = Attempt(plan.nodes["tokens"], MagicMock(), 1)
    work = controller.journal.work("tokens")
    work.mkdir(parents=True)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def step(seconds: float) -> None:
        """The stage itself goes on."""
        now[0] += seconds
        report_to(controller.journal.progress("tokens"), Progress(int(now[0]), 999))
        controller.check_alive(attempt)

    note(work, "reader", "row 7", waits_for="disk")
    note(work, "writer", "row 5")
    step(0)
    step(49)
    note(work, "writer", "row 6")
    step(49)
    with pytest.raises(
        Stalled, match=r"tokens/writer gave no sign of life for 51 s \(its bound is 50"
    ):
        step(51)
    note(work, "writer", "row 6", waits_for="reader")
    step(500)


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=300), st.floats(1, 50))
def test_a_bound_lies_between_floor_and_ceiling(gaps: list[float], times: float) -> None:
    bounds = Bounds(floor=60, ceiling=600, times=times)
    signs = [sum(gaps[:at]) for at in range(len(gaps) + 1)]
    found = bounds.earned(signs)
    assert 60 <= found <= 600
    if len(gaps) >= 20 and 60 < found < 600:
        below = sum(gap <= found / times * (1 + 1e-9) for gap in gaps)
        assert below >= 0.98 * len(gaps)


def test_a_slow_component_earns_a_longer_bound_than_a_quick_one() -> None:
    bounds = Bounds(floor=60, ceiling=6000, times=10)
    assert bounds.earned([at * 1.0 for at in range(100)]) == 60
    assert bounds.earned([at * 50.0 for at in range(100)]) == pytest.approx(500)
    assert bounds.earned([at * 5000.0 for at in range(100)]) == 6000
    assert bounds.earned([at * 50.0 for at in range(5)]) == 60  # too few to tell


def test_silence_begins_when_a_sign_is_first_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = Watch()
    assert watch.silence("rl", 1.0) == 0
    now[0] += 5
    assert watch.silence("rl", 1.0) == 5
    assert watch.silence("rl", 1.5) == 0
    now[0] += 7
    assert watch.silence("rl/trainer", None) == 0
    watch.forget("rl")
    assert watch.silence("rl", 1.5) == 0


def test_components_leave_signs_in_the_work_folder(tmp_path: Path) -> None:
    assert components(tmp_path) == []
    note(tmp_path, "trainer", "batch 3", waits_for="rollouts")
    note(tmp_path, "rollouts", "generating")
    note(tmp_path, "rollouts", "generating")
    (tmp_path / "components/broken.jsonl").write_text('{"time": 1')
    rollouts, trainer = components(tmp_path)
    assert (trainer.name, trainer.doing, trainer.waits_for) == ("trainer", "batch 3", "rollouts")
    assert (rollouts.name, len(rollouts.times), rollouts.waits_for) == ("rollouts", 2, "")


@pytest.mark.parametrize("wrong", ["{floor: 10, ceiling: 5}", "{floor: 0}", "{flor: 1}"])
def test_bounds_that_make_no_sense_are_refused(run: Run, wrong: str) -> None:
    text = (run.folder / "r.yaml").read_text().replace(STALLS, f"stalls: {wrong}\n")
    refused = ended(run.folder, "plan", str(write(run.folder, text)))
    assert refused.code == 2
    assert "r.yaml:6: " in refused.err
