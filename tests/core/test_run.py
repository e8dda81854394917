"""Runs on a real Ray: nothing runs twice, killed workers are replaced, wrong input is one line."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.journal import Journal
from posttrain.store import Store
from posttrain.warden import marked
from tests.core.runs import SMALL, command, posttrain, worker_of, write
from tests.waiting import eventually

SLOW = SMALL.replace("documents: 64", "documents: 400000")


def test_a_run_commits_every_stage(finished: Path) -> None:
    found = [artifact.address for artifact in Store(finished / "store").artifacts("small")]
    assert found == ["small/corpus@1", "small/dialogues@1", "small/tokens@1"]


def test_a_finished_run_does_nothing_more(finished: Path) -> None:
    before = Journal(Store(finished / "store"), "small").events()
    done = posttrain(finished, "run", str(finished / "r.yaml"))
    assert "nothing to do: all 3 stages" in done.stdout
    assert Journal(Store(finished / "store"), "small").events() == before


def test_status_show_and_logs_tell_of_it(finished: Path) -> None:
    assert "small: finished" in posttrain(finished, "status").stdout
    shown = json.loads(posttrain(finished, "show", "small/tokens@1", "--json").stdout)
    assert shown["inputs"] == {
        "data.corpus": "small/corpus@1",
        "data.dialogues": "small/dialogues@1",
    }
    assert posttrain(finished, "logs", "tokens").returncode == 0
    assert "no log" in posttrain(finished, "logs", "tokenz").stderr


def test_an_unreachable_ray_is_one_line(tmp_path: Path) -> None:
    recipe = str(write(tmp_path, SMALL))
    done = posttrain(tmp_path, "run", recipe, "--ray-address", "127.0.0.1:1")
    assert done.returncode == 2
    assert "Ray at 127.0.0.1:1 cannot be reached" in done.stderr


def test_a_killed_worker_is_replaced_and_a_killed_controller_leaves_nothing(tmp_path: Path) -> None:
    arguments = command(tmp_path, "run", str(write(tmp_path, SLOW)))
    with (tmp_path / "out").open("w") as out:
        controller = subprocess.Popen(arguments, stdout=out, stderr=out)
    store = Store(tmp_path / "store")
    journal = Journal(store, "small")
    assert eventually(lambda: worker_of(journal, "corpus") is not None, 60)
    os.kill(worker_of(journal, "corpus") or 0, signal.SIGKILL)
    assert eventually(lambda: any(e["event"] == "failed" for e in journal.events()), 60)
    told = tmp_path / "out"
    assert eventually(lambda: "corpus: started again (2 of 4)" in told.read_text(), 60)
    assert "raylet" not in told.read_text()
    token = json.loads((tmp_path / "store/runs/small/lease.json").read_text())["token"]
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait(10)
    assert eventually(lambda: not marked(token), 30)
    assert [artifact.address for artifact in store.artifacts()] in (
        [], ["small/dialogues@1"],
    )  # fmt: skip
    done = posttrain(tmp_path, "run", str(tmp_path / "r.yaml"), "--set", "data.corpus.documents=64")
    assert done.returncode == 0, done.stderr


def test_a_changed_input_fails_the_stage_that_reads_it(finished: Path) -> None:
    corpus = Store(finished / "store").get("small/corpus@1").path / "train.jsonl"
    before = corpus.read_text()
    corpus.write_text(before.replace("1", "2"))
    try:
        change = ["--set", "stages.tokens.vocabulary=601"]
        done = posttrain(finished, "run", str(finished / "r.yaml"), *change)
    finally:
        corpus.write_text(before)
    assert done.returncode == 1
    assert "stage tokens failed: artifact small/corpus@1: file train.jsonl differs" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose store lies on a file system of 400 kB."""
    place = tmp_path / "store"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_line_and_leaves_whole_artifacts(small_disk: Path) -> None:
    recipe = SMALL.replace("documents: 64", "documents: 9000")
    done = posttrain(small_disk, "run", str(write(small_disk, recipe)))
    assert done.returncode in (1, 4)
    assert "disk full" in done.stderr
    for artifact in Store(small_disk / "store").artifacts():
        artifact.verify()
