"""One vLLM server of one checkpoint, as a process: started, asked for its health, ended."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from posttrain.backends import profile
from posttrain.serving.manifest import ServingManifest

DRAIN = 20.0
"""Seconds that a server has to answer what it was asked before it was told to end."""

_PASSED_ON = ("VLLM_", "OMP_", "HF_", "TOKENIZERS_")
_OF_THE_TRAINER = "VLLM_ENABLE_V1_MULTIPROCESSING"
"""Puts the engine into the process of a rollout worker; a server keeps it apart."""

_CPU_ARGUMENTS = (
    "--enforce-eager", "--max-num-seqs", "8", "--distributed-executor-backend", "uni",
)  # fmt: skip
_STRUCTURED = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""JSON that is demanded is written as training writes it: a model cannot go on in blanks."""

_PLUGIN = Path(__file__).with_name("vllm_plugin.py")


class ServerDied(RuntimeError):
    """A server ended though nobody told it to, or never came to answer."""


@dataclass(frozen=True)
class Served:
    """A checkpoint and how it is served: `name` is the model's, `folder` where its files are."""

    name: str
    folder: Path
    manifest: ServingManifest


class Server:
    """A vLLM process on one port of `host`; what it prints is in `log`."""

    def __init__(self, served: Served, host: str, port: int, log: Path, backend: str) -> None:
        self.served, self.log = served, log
        self._host, self.port, self._backend = host, port, backend
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The base of its OpenAI-compatible endpoints."""
        return f"http://{self._host}:{self.port}/v1"

    def start(self) -> None:
        """Start the process; `ready` says when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command(self.served, self._host, self.port, self._backend)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=_environment(self._backend),
            )  # fmt: skip

    def ready(self) -> bool:
        """Whether it answers; ServerDied if it has ended."""
        self.check()
        try:
            health = self.url.removesuffix("/v1") + "/health"
            with urllib.request.urlopen(health, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def check(self) -> None:
        """ServerDied if it has ended."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise ServerDied(
                f"the server of {self.served.name} ended {how}: {self._last_words()}; "
                f"see {self.log}"
            )

    def tell_to_end(self) -> None:
        """Ask it to answer what it was asked, and to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def await_end(self, deadline: float) -> bool:
        """Whether it ended by itself before `deadline` (monotonic); if not, it was killed."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            return False
        return True

    def _last_words(self) -> str:
        """The first line that tells of an error, which others follow from; else the last line."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        said = [line for line in lines if line]
        wrong = [line for line in said if "Error:" in line]
        return wrong[0][-300:] if wrong else said[-1][:300] if said else "it said nothing"


def _environment(backend: str) -> dict[str, str]:
    """What vLLM's process inherits, with what the backend's profile sets for vLLM."""
    set_for_it = {
        name: value
        for name, value in profile(backend).environment.items()
        if name.startswith(_PASSED_ON) and name != _OF_THE_TRAINER
    }
    inherited = {name: each for name, each in os.environ.items() if name != _OF_THE_TRAINER}
    return {**inherited, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", **set_for_it}


def command(served: Served, host: str, port: int, backend: str) -> list[str]:
    """Arguments of the Python that becomes the server."""
    manifest = served.manifest
    return [
        "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(served.folder), "--served-model-name", served.name,
        "--host", host, "--port", str(port),
        "--dtype", manifest.dtype, "--max-model-len", str(manifest.context_length),
        "--reasoning-parser-plugin", str(_PLUGIN), "--reasoning-parser", manifest.reasoning_parser,
        "--tool-parser-plugin", str(_PLUGIN), "--tool-call-parser", manifest.tool_parser,
        "--structured-outputs-config", _STRUCTURED,
        "--enable-auto-tool-choice", "--exclude-tools-when-tool-choice-none",
        "--shutdown-timeout", str(int(DRAIN)), "--disable-uvicorn-access-log",
        *(_CPU_ARGUMENTS if backend == "cpu" else ()),
    ]  # fmt: skip
