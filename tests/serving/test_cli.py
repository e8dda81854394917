"""`posttrain serve`: what it prints, and its exit codes."""

import json
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from posttrain.serving import side_by_side
from posttrain.serving.server import Server
from tests.core.runs import ended


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The command takes signals over; a test gives them back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(servers: Sequence[Server]) -> None:
    """Ctrl-C while it watches."""
    for server in servers:
        assert server.ready()
    raise KeyboardInterrupt


@pytest.mark.usefixtures("stubbed")
def test_it_serves_until_interrupted(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "watch", interrupted)
    done = ended(tmp_path, "serve", str(model), "--json")
    assert done.code == 0
    [(name, url)] = json.loads(done.out).items()
    assert name == str(model)
    assert url.startswith("http://127.0.0.1:")
    assert f"next: posttrain release check {url} --model {model}" in done.err
    assert done.err.endswith("ended: no server is left\n")


@pytest.mark.usefixtures("stubbed")
def test_a_server_that_dies_is_told_with_exit_code_4(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fails"
    folder.symlink_to(model)
    done = ended(tmp_path, "serve", str(folder))
    assert done.code == 4
    assert "fails ended with exit code 1: RuntimeError: Unsupported configuration" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.usefixtures("stubbed")
def test_wrong_input_is_told_with_exit_code_2(model: Path, tmp_path: Path) -> None:
    unknown = ended(tmp_path, "serve", "champion")
    assert (unknown.code, "'champion' is neither" in unknown.err) == (2, True)
    other = ended(tmp_path, "serve", str(model), "--backend", "tpu")
    assert (other.code, "unknown backend 'tpu'" in other.err) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = ended(tmp_path, "serve", str(model), "--port", port)
    assert (busy.code, "cannot be listened on" in busy.err) == (2, True)
