"""Several processes that train one model: which documents each takes, and how they are started.

All ranks are processes of this machine, started and ended by the one that calls `run`; the loss of
one ends them all. Rank 0 speaks for them.
"""

import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posttrain.data.chat import Rendered

Task = Callable[..., Any]
"""A function of a module; called with its arguments and `rank`, `ranks`, `rendezvous`, `report`."""

_POLL = 0.05
_GRACE = 10.0
_PR_SET_PDEATHSIG = 1


class RankLost(RuntimeError):
    """A rank died; what the state in the work folder holds is not lost."""


def shared(documents: "Sequence[Rendered]", ranks: int, room: int) -> "list[list[list[Rendered]]]":
    """For each rank its rows; all ranks get equally many, of about equally many tokens.

    Rows are cut from the documents in their order, and are longer than `room` tokens only where a
    document is, or where lengths do not divide evenly. ValueError if there are fewer documents
    than ranks.
    """
    if len(documents) < ranks:
        raise ValueError(f"a batch of {len(documents)} documents for {ranks} ranks: raise batch")
    total = sum(len(each.ids) for each in documents)
    count = min(max(1, -(-total // (ranks * room))), len(documents) // ranks) * ranks
    cut, start, passed = [], 0, 0
    for number in range(1, count + 1):
        last = len(documents) - (count - number)
        end = start + 1
        passed += len(documents[start].ids)
        while end < last and passed + len(documents[end].ids) / 2 < total * number / count:
            passed += len(documents[end].ids)
            end += 1
        end = last if number == count else end
        cut.append(list(documents[start:end]))
        start = end
    return [cut[rank::ranks] for rank in range(ranks)]


def run(ranks: int, task: Task, arguments: Sequence[Any], report: Callable[..., None]) -> Any:
    """What `task` returns on rank 0; `report` is called as rank 0 calls its own.

    ValueError as raised by a rank; RankLost if one ended otherwise.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "task").write_bytes(pickle.dumps((task, tuple(arguments))))
        members = [_start(folder, rank, ranks) for rank in range(ranks)]
        try:
            _follow(members, folder, report)
        finally:
            for member in members:
                member.kill()
                member.wait(_GRACE)
        return pickle.loads((folder / "result").read_bytes())


def _start(folder: Path, rank: int, ranks: int) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}
    command = [sys.executable, "-m", __name__, str(folder), str(rank), str(ranks), str(os.getpid())]
    return subprocess.Popen(command, env=environment)


def _follow(
    members: Sequence["subprocess.Popen[bytes]"], folder: Path, report: Callable[..., None]
) -> None:
    """Pass reports on until every rank has ended well."""
    position = 0
    while True:
        codes = [member.poll() for member in members]
        position = _relay(folder / "reports", position, report)
        for rank, code in enumerate(codes):
            if code:
                _raise(folder, rank, code)
        if all(code == 0 for code in codes):
            return
        time.sleep(_POLL)


def _raise(folder: Path, rank: int, code: int) -> None:
    """A user's error if any rank met one: the others then fail for want of it."""
    time.sleep(_POLL)
    for path in sorted(folder.glob("error.*")):
        raise ValueError(path.read_text())
    raise RankLost(f"rank {rank} ended with code {code}; its last words are in the stage's log")


def _relay(path: Path, position: int, report: Callable[..., None]) -> int:
    if not path.is_file():
        return position
    with path.open("rb") as stream:
        stream.seek(position)
        whole = stream.read().rpartition(b"\n")[0]
    for line in whole.decode().splitlines():
        report(*json.loads(line))
    return position + len(whole) + bool(whole)


def _main(folder: Path, rank: int, ranks: int, parent: int) -> int:
    """One rank."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    task, arguments = pickle.loads((folder / "task").read_bytes())

    def tell(*told: Any) -> None:
        with (folder / "reports").open("a") as stream:
            stream.write(json.dumps(told) + "\n")

    def silent(*_: Any) -> None:
        pass

    try:
        result = task(
            *arguments, rank=rank, ranks=ranks, rendezvous=folder / "rendezvous",
            report=tell if rank == 0 else silent,
        )  # fmt: skip
    except ValueError as fault:
        (folder / f"error.{rank}").write_text(str(fault))
        return 1
    if rank == 0:
        (folder / "result").write_bytes(pickle.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
