"""A vLLM engine in a process of its own, which samples from the trainer's weights.

It is started once and gets the weights of each step in place. Always holds: every wait has a bound;
the engine ends when this process does, however that dies; an engine that died or fell silent is a
lost process, never an empty response.
"""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from posttrain.backends import profile
from posttrain.stages import ProcessLost
from posttrain.training.rollouts import engine
from posttrain.training.rollouts.config import VllmConfig
from posttrain.training.rollouts.messages import FAULT, Loaded, Model, Prompts
from posttrain.training.rollouts.source import Response

_POLL = 0.5
_GRACE = 10.0
_PREFIX = "actor_rollout_ref.rollout."


class EngineLost(ProcessLost):
    """The rollout engine died or fell silent."""


class Vllm:
    """Rollouts from the engine at the other end of `line`; weights lie at `weights` meanwhile."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", line: "Connection[Any, Any]", weights: Path,
        longest: int, temperature: float, stop_ids: Sequence[int], silence: float,
    ) -> None:  # fmt: skip
        self._process, self._line, self._weights = process, line, weights
        self._longest, self._temperature = longest, temperature
        self._stop_ids, self._silence = stop_ids, silence

    @property
    def pid(self) -> int:
        """The engine's process."""
        return self._process.pid

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """As `Rollouts`: the engine reads them from a file, which is gone when it has."""
        plain = {name: each.detach().cpu().contiguous() for name, each in weights.items()}
        try:
            save_file(_unshared(plain), self._weights)
            self._ask(Loaded(str(self._weights)))
        finally:
            self._weights.unlink(missing_ok=True)

    def respond(
        self, prompts: Sequence[Sequence[int]], seed: int, *, with_log_probs: bool = True
    ) -> list[Response]:
        """As `Rollouts`; the log-probabilities are always at hand."""
        asked = Prompts(
            [list(each) for each in prompts], self._longest, self._temperature,
            list(self._stop_ids), seed,
        )  # fmt: skip
        return [Response(*each) for each in self._ask(asked)]

    def _ask(self, message: object) -> Any:
        return _asked(self._process, self._line, message, self._silence)


@contextmanager
def started(
    config: VllmConfig, model: Path, *, prompt: int, response: int, temperature: float,
    stop_ids: Sequence[int], seed: int, backend: str, work: Path,
) -> Iterator[Vllm]:  # fmt: skip
    """An engine of the checkpoint folder `model` for the duration; EngineLost if it does not come.

    `prompt` and `response` are the most tokens of each.
    """
    ours, theirs = Pipe()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", engine.__name__, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()], env=_environment(backend), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            theirs.close()
            first = _model(config, model, prompt + response, seed, backend)
            _asked(process, ours, first, config.start)
            yield Vllm(
                process, ours, work / "weights.safetensors", response, temperature, stop_ids,
                config.silence,
            )  # fmt: skip
        finally:
            process.kill()
            process.wait(_GRACE)


def _asked(
    process: "subprocess.Popen[bytes]", line: "Connection[Any, Any]", message: object,
    within: float,
) -> Any:  # fmt: skip
    """What the engine says to `message`; EngineLost if it dies or is silent for `within` seconds.

    RuntimeError with its reason where it refuses.
    """
    deadline = time.monotonic() + within
    _bound(line, within)
    try:
        line.send(message)
        while not line.poll(_POLL):
            if process.poll() is not None and not line.poll():
                raise _lost(process)
            if time.monotonic() > deadline:
                raise EngineLost(f"the rollout engine said nothing for {within:.0f} s")
        said, value = line.recv()
    except BlockingIOError:
        raise EngineLost(f"the rollout engine took nothing for {within:.0f} s") from None
    except (EOFError, OSError):
        raise _lost(process) from None
    if said == FAULT:
        raise RuntimeError(f"the rollout engine failed: {value}")
    return value


def _bound(line: "Connection[Any, Any]", within: float) -> None:
    """Have no send or receive wait longer for the other end: a stopped process reads nothing."""
    seconds = int(within)
    limit = struct.pack("@ll", seconds, int((within - seconds) * 1e6))
    with socket.socket(fileno=os.dup(line.fileno())) as pipe:
        for each in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            pipe.setsockopt(socket.SOL_SOCKET, each, limit)


def _lost(process: "subprocess.Popen[bytes]") -> EngineLost:
    process.kill()
    code = process.wait(_GRACE)
    return EngineLost(f"the rollout engine ended with code {code}; its last words are in the log")


def _environment(backend: str) -> dict[str, str]:
    # This process is the engine's own: its core need not be another one.
    own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "WARNING"}
    return {**os.environ, **profile(backend).environment, **own}


def _model(config: VllmConfig, folder: Path, length: int, seed: int, backend: str) -> Model:
    chosen = profile(backend)
    given = {
        name.removeprefix(_PREFIX): value
        for name, value in chosen.rollout.items()
        if name.startswith(_PREFIX)
    }
    own = "engine_kwargs.vllm."
    arguments = {name.removeprefix(own): given[name] for name in given if name.startswith(own)}
    arguments |= {name: given[name] for name in ("dtype", "enforce_eager") if name in given}
    extension = str(arguments.pop("worker_extension_cls", ""))
    patches = [chosen.environment.get("VERL_USE_EXTERNAL_MODULES"), extension.rpartition(".")[0]]
    arguments |= {
        "model": str(folder), "max_model_len": length, "seed": seed % 2**31,
        "tensor_parallel_size": config.tensor_parallel, "gpu_memory_utilization": config.memory,
    }  # fmt: skip
    return Model([name for name in patches if name], arguments)


def _unshared(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without what is another's under a second name, as a tied head: a file holds it once."""
    seen: set[int] = set()
    found = {}
    for name, each in weights.items():
        if each.data_ptr() not in seen:
            found[name] = each
            seen.add(each.data_ptr())
    return found
