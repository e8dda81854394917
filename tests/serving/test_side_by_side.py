"""Servers start together, are told of when all answer, and are gone afterwards."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from posttrain.serving import side_by_side
from posttrain.serving.server import Served, ServerDied, command
from posttrain.serving.side_by_side import serving, watch
from tests.serving.conftest import STUB
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("stubbed")


def start(checkpoints: list[Served], folder: Path, **how: object):  # type: ignore[no-untyped-def]
    lines: list[str] = []
    settings = {"host": "127.0.0.1", "port": None, "backend": "cpu", **how}
    return serving(checkpoints, folder=folder, told=lines.append, **settings), lines  # type: ignore[arg-type]


def alive(url: str) -> bool:
    port = int(re.findall(r":(\d+)/", url)[0])
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_two_answer_and_are_gone(checkpoint: Served, tmp_path: Path) -> None:
    opened, lines = start([checkpoint, replace(checkpoint, name="champion")], tmp_path)
    with opened as servers:
        urls = [server.url for server in servers]
        assert all(alive(url) for url in urls)
        assert len(set(urls)) == 2
    assert not any(alive(url) for url in urls)
    told = {line.split(" after")[0] for line in lines if "after" in line}
    assert told == {"r/sft@1 answers", "champion answers"}


def test_one_that_does_not_end_is_killed(
    checkpoint: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "DRAIN", -9.0)
    opened, lines = start([replace(checkpoint, name="stubborn")], tmp_path)
    with opened as [server]:
        url = server.url
    assert not alive(url)
    assert "did not end by itself and was killed" in lines[-1]


def test_one_that_dies_at_its_start_is_told_with_its_words(
    checkpoint: Served, tmp_path: Path
) -> None:
    opened, _ = start([checkpoint, replace(checkpoint, name="fails")], tmp_path)
    with (
        pytest.raises(ServerDied, match=r"fails ended with exit code 1: RuntimeError: Unsupp.*log"),
        opened,
    ):
        pass


def test_one_that_dies_later_ends_the_watch(checkpoint: Served, tmp_path: Path) -> None:
    opened, _ = start([checkpoint], tmp_path)
    with opened as [server]:
        urllib.request.urlopen(server.url.removesuffix("/v1") + "/die", timeout=5).read()
        with pytest.raises(ServerDied, match="ended with exit code 7"):
            watch([server])


def test_one_that_never_answers_is_waited_for_within_a_bound(
    checkpoint: Served, tmp_path: Path
) -> None:
    opened, lines = start([replace(checkpoint, name="silent")], tmp_path, ready_within=0.2)
    with pytest.raises(ServerDied, match="silent did not answer within"), opened:
        pass
    assert lines[0].startswith("starting silent")


def test_a_port_that_is_taken_is_told(checkpoint: Served, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        opened, _ = start([checkpoint], tmp_path, port=port)
        with pytest.raises(ValueError, match=f"127.0.0.1:{port} cannot be listened on"), opened:
            pass


SERVES = """
    import sys
    from pathlib import Path
    from posttrain.serving import server
    from posttrain.serving.manifest import ServingManifest
    from posttrain.serving.side_by_side import serving, watch
    server.command = lambda served, host, port, backend: [{stub!r}, host, str(port), served.name]
    manifest = ServingManifest.model_validate_json({manifest!r})
    one = server.Served("a", Path({folder!r}), manifest)
    with serving([one], host="127.0.0.1", port=None, folder=Path({folder!r}), backend="cpu",
                 told=lambda line: None) as servers:
        print(servers[0].url, flush=True)
        watch(servers)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_stays_behind(how: signal.Signals, checkpoint: Served, tmp_path: Path) -> None:
    manifest = checkpoint.manifest.text()
    text = SERVES.format(stub=str(STUB), manifest=manifest, folder=str(tmp_path))
    environment = {name: each for name, each in os.environ.items() if name != "POSTTRAIN_RUN"}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=environment,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        url = parent.stdout.readline()
        assert alive(url)
        parent.send_signal(how)
        parent.wait(30)
    assert eventually(lambda: not alive(url), 15)


def test_the_command_states_the_manifest(
    checkpoint: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = " ".join(command(checkpoint, "127.0.0.1", 8000, "gpu"))
    assert "--served-model-name r/sft@1" in line
    assert "--max-model-len 512" in line
    assert "--reasoning-parser posttrain_ids" in line
    assert "--tool-call-parser posttrain_ids" in line
    assert "--enforce-eager" not in line
