"""Forks Ray workers that have already imported torch, verl and vLLM.

An RL run is about ten processes, and each would import for ten seconds. A zygote imports once;
Ray then starts workers through `enter` (the runtime environment's `py_executable`), which has the
zygote fork a process that becomes the worker. Always holds: the zygote has a single thread when it
forks; a worker ends when the process that Ray started for it ends; every worker ends with its
zygote, and the zygote with the process that started it, however that dies.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MODULES = (
    "ray._private.workers.default_worker",
    "transformers.models.apertus.modeling_apertus",
    "transfer_queue",
    "verl.trainer.ppo.v1",
    "verl.experimental.separation.engine_workers",
    "verl.workers.rollout.vllm_rollout.vllm_rollout",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.apertus",
    "posttrain.backends.cpu.vllm_worker",
    "posttrain.backends.cpu.weights",
    "posttrain.rl.session",
)
"""What the processes of an RL run import between them."""

_ENTER = Path(__file__).with_name("enter.py")
_PR_SET_PDEATHSIG = 1
_PATIENCE = 60.0
"""Seconds a zygote gets to end; it looks only when it has imported everything."""


@contextmanager
def zygote(modules: Sequence[str] = MODULES) -> Iterator[str]:
    """A zygote for the duration; yields the `py_executable` that Ray starts workers with.

    It imports in the background: the first worker waits for that.
    """
    with (
        tempfile.TemporaryDirectory(prefix="zygote-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = Path(folder) / "socket"
        listener.bind(str(path))
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(listener.fileno()), *modules],
            stdin=subprocess.PIPE, pass_fds=[listener.fileno()],
        )  # fmt: skip
        assert process.stdin is not None
        try:
            yield f"{sys.executable} -I -S {_ENTER} {path}"
        finally:
            process.stdin.close()
            process.wait(timeout=_PATIENCE)


def main() -> None:
    """`zygote.py LISTENER MODULES...`, LISTENER being the descriptor of a listening socket."""
    descriptor, *modules = sys.argv[1:]
    if line := serve(socket.socket(fileno=int(descriptor)), modules):
        become_worker(line)


def serve(listener: socket.socket, modules: Sequence[str]) -> socket.socket | None:
    """Import `modules`, then fork for each connection until standard input ends.

    Returns in each fork with its connection, in the zygote with None.
    """
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the workers' collectors leave the shared pages alone
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    with listener:
        while _ready(listener):
            line, _ = listener.accept()
            assert threading.active_count() == 1, "an imported module started a thread"
            if os.fork() == 0:
                return line
            line.close()
    return None


def _ready(listener: socket.socket) -> bool:
    """Wait for a connection (True) or the end of standard input (False)."""
    readable, _, _ = select.select([listener, sys.stdin], [], [])
    return sys.stdin not in readable


def become_worker(line: socket.socket) -> None:
    """Take over what `enter` was started with and run the script it names."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)  # Ray kills the process group of a worker that ended
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, streams, _, _ = socket.recv_fds(line, 4, 3)
    arguments, environment, folder = json.loads(_read(line, int.from_bytes(header, "big")))
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    _reseed()
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def _read(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += line.recv(count - len(data))
    return data


def _reseed() -> None:
    """Forks share numpy's generator; Python reseeds its own."""
    import numpy

    numpy.random.seed()


def _end_with(line: socket.socket) -> None:
    """End this process when the one that Ray started for it has ended."""
    line.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main()
