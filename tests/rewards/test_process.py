"""The service as a process: how it starts, refuses to start, ends and recovers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rewards.ledger import read
from tests.rewards.service import (
    FAULTY,
    ROOT,
    Service,
    alive,
    children,
    descendants,
    faulty_item,
    serving,
    start,
)
from tests.waiting import eventually


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rewards", *options]
    env = os.environ | environment
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


@contextmanager
def busy(service: Service, mark: Path) -> Iterator[list[int]]:
    """While a worker spins for ever; yields what will be the status of that request, if any."""
    statuses: list[int] = []

    def ask() -> None:
        with suppress(OSError):  # The service may die under the request.
            statuses.append(service.ask("POST", "/v1/score", faulty_item(f"spin {mark}"))[0])

    asking = threading.Thread(target=ask)
    asking.start()
    assert eventually(mark.exists)
    yield statuses
    asking.join(15)
    assert not asking.is_alive()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_service(tmp_path: Path, number: signal.Signals) -> None:
    options = ("--verifiers", FAULTY, "--workers", "2", "--drain", "0.5")
    with serving(tmp_path, *options) as service:
        with busy(service, tmp_path / "spinning") as statuses:
            below = descendants(service.process.pid)
            assert len(below) == 3
            service.process.send_signal(number)
            assert service.process.wait(15) == (-number if number == signal.SIGKILL else 0)
            assert eventually(lambda: not alive(below))
        assert statuses == ([] if number == signal.SIGKILL else [503])


def kill_all_below(service: Service) -> None:
    below = descendants(service.process.pid)
    for pid in below:
        with suppress(ProcessLookupError):  # The kernel kills workers with their parent.
            os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not alive(below))


def test_the_service_recovers_from_the_loss_of_all_its_processes(tmp_path: Path) -> None:
    with serving(tmp_path, "--verifiers", FAULTY, "--workers", "2") as service:
        for _ in range(2):
            kill_all_below(service)
            verdicts = service.faulty("pass", "exit", "pass")
            assert [v["score"] for v in verdicts] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(("tries", "found"), [(1, ("scored", 1.0)), (2, ("failed", None))])
def test_the_loss_of_the_workers_parent_is_not_the_candidates_doing(
    tmp_path: Path, tries: int, found: tuple[str, float | None]
) -> None:
    """It is killed during the first try of an item, or during the second too."""
    log, verdicts = tmp_path / "log", []
    with serving(tmp_path, "--verifiers", FAULTY, "--workers", "1") as service:
        item = {**faulty_item("log-and-wait"), "gold": str(log)}
        asking = threading.Thread(target=lambda: verdicts.extend(service.score(item)))
        asking.start()
        for n in range(1, tries + 1):
            assert eventually(lambda: begun(log) == n)  # noqa: B023 - it is called at once
            os.kill(zygote(service), signal.SIGKILL)
        if tries == 1:
            assert eventually(lambda: begun(log) == 2)
            log.with_name("enough").touch()
        asking.join(30)
    assert [(v["status"], v["score"]) for v in verdicts] == [found]


def begun(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def zygote(service: Service) -> int:
    (pid,) = children(service.process.pid)
    return pid


def test_the_end_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """SIGTERM under load: what is under way is finished and recorded, the rest is refused."""
    folder = tmp_path / "ledger"
    options = ("--verifiers", FAULTY, "--workers", "2", "--ledger", str(folder))
    acknowledged: list[str] = []
    with serving(tmp_path, *options) as service:

        def ask(name: str) -> None:
            for n in range(100):
                try:
                    status, content = service.ask(
                        "POST", "/v1/score", {**faulty_item("nap"), "id": f"{name}-{n}", "gold": n}
                    )
                except OSError:
                    return
                assert status == 200, content
                acknowledged.append(content["verdicts"][0]["id"])

        asking = [threading.Thread(target=ask, args=(str(n),)) for n in range(4)]
        for thread in asking:
            thread.start()
        assert eventually(lambda: len(acknowledged) >= 4)
        service.process.terminate()
        for thread in asking:
            thread.join(30)
        assert service.process.wait(15) == 0
    recorded = [record.verdict for record in read(folder)]
    assert {verdict.id for verdict in recorded} >= set(acknowledged)
    assert {verdict.status for verdict in recorded} == {"scored"}


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    options = ("--verifiers", "answer", "--ledger", str(folder))
    item = {"verifier": "answer", "answers": ["4"], "gold": ["4"]}
    with serving(tmp_path, *options) as service:
        acknowledged = [service.score({"id": str(n), **item})[0]["id"] for n in range(50)]
        service.process.kill()
        service.process.wait(10)
    records = list(read(folder))
    assert [record.verdict.id for record in records] == acknowledged
    assert all(record.digests["answer"] for record in records)


@pytest.mark.parametrize("lost", ["000001.log", "."])
def test_a_ledger_that_is_removed_is_noticed(tmp_path: Path, lost: str) -> None:
    """No verdict is given any more, and the service is not ready; records went unnoticed."""
    folder = tmp_path / "ledger"
    item = {"id": "a", "verifier": "answer", "answers": ["4"], "gold": ["4"]}
    with serving(tmp_path, "--verifiers", "answer", "--ledger", str(folder)) as service:
        assert service.score(item)[0]["score"] == 1.0
        path = folder / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert not service.is_ready()
        assert service.ask("POST", "/v1/score", item)[0] == 503
        _, report = service.ask("GET", "/readyz")
        assert "the ledger is lost: " in report["verifiers"]["answer"]["reason"]
        service.process.terminate()
        assert service.process.wait(15) == 4


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("serve", "--port", port, "--port-file", str(tmp_path / "port"))
    assert ended.returncode == 4
    assert ended.stderr.splitlines() == [
        f"rewards: port {port} on 127.0.0.1 is in use; choose another --port, or 0 for a free one"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--verifiers", "oracle"], 2, "no verifier 'oracle'; there are answer, math"),
        (["--verifiers", "answer,answer"], 2, "verifier answer is named twice"),
        (["--workers", "0"], 2, "--workers"),
        (["--host", "203.0.113.1"], 4, "cannot listen on 203.0.113.1:0"),
        (["--verifiers", "x=no.such"], 2, "--verifiers x=no.such: ModuleNotFoundError: No module"),
        (["--verifiers", "x=tests.rewards.service"], 2, "has no attribute 'RUNS'"),
        (["--verifiers", "code"], 2, "start one with `posttrain sandbox serve`"),
        (["--verifiers", "judge"], 2, "JUDGE_TEMPLATES"),
        (["--token-file", "nope"], 2, "rewards: --token-file nope cannot be read: No such file"),
        (["--ledger", "README.md"], 2, "rewards: README.md is no folder; a ledger needs one"),
    ],
)
def test_what_cannot_be_served_ends_at_once(options: list[str], code: int, says: str) -> None:
    env = {"REWARDS_TOKEN": "token", "SANDBOX_URL": "", "JUDGE_TEMPLATES": ""}
    ended = run("serve", "--port", "0", *options, **env)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_verifier_that_fails_its_canary_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "flag").touch()
    process = start(
        tmp_path, "--verifiers", FAULTY, env={"FAULTY_CANARY_FLAG": str(tmp_path / "flag")}
    )
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "fails canary" in errors


@pytest.mark.parametrize("guard", ["", "file", "variable"])
def test_what_it_tells_people_to_do_next_works(tmp_path: Path, guard: str) -> None:
    """The lines are run by a shell as they stand."""
    token = tmp_path / "the token"
    token.write_text("secret")
    options = ["--token-file", str(token)] if guard == "file" else []
    env = os.environ | {"REWARDS_TOKEN": "secret" if guard == "variable" else ""}
    command = [sys.executable, "-m", "rewards", "serve", "--port", "0", "--verifiers", "math"]
    with subprocess.Popen(
        [*command, *options], cwd=ROOT, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        _, curl, probe = (process.stdout.readline() for _ in range(3))
        probe = probe.replace("posttrain", f"{sys.executable} -m posttrain")
        shown = [
            subprocess.run(line, shell=True, cwd=ROOT, env=env, capture_output=True, text=True)
            for line in (f"curl() {{ printf '%s\\n' \"$@\"; }}; {curl}", probe)
        ]
        process.terminate()
    assert '"verifier":"math"' in shown[0].stdout
    assert ("Authorization: Bearer secret" in shown[0].stdout) == bool(guard)
    assert shown[1].returncode == 0, shown[1].stderr


def test_neither_torch_nor_ray_is_imported(tmp_path: Path) -> None:
    """The service, its workers and the client run where importing torch or ray raises."""
    for name in ("torch", "ray"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')\n")
    env = {"PYTHONPATH": str(tmp_path)}
    with serving(tmp_path, env=env) as service:
        item = {"id": "i", "answers": ["1/2"], "gold": r"\frac{2}{4}"}
        verdicts = service.score({**item, "verifier": "math"}, {**item, "verifier": "answer"})
        assert [v["score"] for v in verdicts] == [1.0, 0.0]
    code = "import rewards.client, sys; assert not {'math_verify', 'fastapi'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | env, check=True)


def test_the_port_can_be_taken_over_by_the_next_service(tmp_path: Path) -> None:
    with serving(tmp_path, "--verifiers", FAULTY) as service:
        assert service.faulty("pass")[0]["score"] == 1.0
        port = service.port
        service.process.kill()
        service.process.wait(10)
        with serving(tmp_path, "--verifiers", FAULTY, "--port", str(port)) as after:
            assert after.port == port
            assert after.faulty("pass")[0]["score"] == 1.0
