"""Services a run relies on: started before the first stage that needs them, watched, stopped.

A service that dies or falls silent is started again on its port, so that its clients' bounded
retries reach it.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from posttrain.recipe.schema import RewardService
from posttrain.store import Store

_READY_WITHIN = 90.0
_RESTARTS = 20
_LISTEN_EVERY = 5.0
_WRONG_SETTINGS = 2
"""Exit code of a service that cannot serve what it was told to."""


class ServiceFailed(RuntimeError):
    """A service could not be started or kept up."""


class Rewards:
    """The reward service of a run: the recipe's `url`, or a process of ours on loopback."""

    def __init__(
        self, config: RewardService, store: Store, run: str, silence: float = 120.0
    ) -> None:
        self._config = config
        self._silence = silence
        self._ear: Ear | None = None
        self._folder = store.root / "runs" / run
        self._log = self._folder / "logs" / "rewards.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._restarts = 0

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return self._config.url or f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it unless it is external; `await_ready` says when it answers."""
        if self._config.url is None and self._process is None:
            self._launch()

    def _launch(self) -> None:
        port_file = self._folder / "rewards.port"
        port_file.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "rewards", "serve", "--host", "127.0.0.1",
                    "--port", str(self._port), "--port-file", str(port_file),
                    "--verifiers", ",".join(self._config.verifiers),
                    "--workers", str(self._config.workers),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def await_ready(self) -> bool:
        """Return once `/readyz` answers 200: whether it was started again on the way.

        ServiceFailed after 90 s, or as `supervise` says.
        """
        deadline = time.monotonic() + _READY_WITHIN
        restarted = False
        while time.monotonic() < deadline:
            restarted |= self.supervise()
            if self._found_port() and _answers(f"{self.url}/readyz"):
                if self._process and not self._ear:
                    self._ear = Ear(f"{self.url}/readyz", self._silence)
                return restarted
            time.sleep(0.1)
        raise ServiceFailed(
            f"the reward service at {self.url} was not ready in {_READY_WITHIN:.0f} s; "
            f"{self._see_log()}"
        )

    def _found_port(self) -> bool:
        if self._config.url is None and not self._port:
            path = self._folder / "rewards.port"
            text = path.read_text().strip() if path.is_file() else ""
            self._port = int(text) if text else 0
        return bool(self._config.url or self._port)

    def supervise(self) -> bool:
        """Start it again if it died or fell silent; returns whether it had.

        ServiceFailed when it keeps doing so, and at once if its settings are wrong or it never came
        so far as to listen. One that was started elsewhere is left to its owner.
        """
        if self._process is None:
            return False
        if self._ear and self._ear.silent() and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # It may be stopped, deaf to SIGTERM.
            self._process.wait(5)
        if self._process.poll() is None:
            return False
        if self._process.returncode == _WRONG_SETTINGS or not self._found_port():
            raise ServiceFailed(
                f"the reward service ended at its start: {self._last_words()}; {self._see_log()}"
            )
        self._restarts += 1
        if self._restarts > _RESTARTS:
            raise ServiceFailed(
                f"the reward service died {self._restarts} times; {self._see_log()}"
            )
        self._launch()
        if self._ear:
            self._ear.expect(_READY_WITHIN)
        return True

    def stop(self) -> None:
        """End the process within 15 s."""
        if self._ear:
            self._ear.close()
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._process = None

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n") if self._log.is_file() else []
        said = [line for line in lines if line.strip()]
        return said[-1][:300] if said else "it said nothing"

    def _see_log(self) -> str:
        return "it was started elsewhere" if self._config.url else f"see {self._log}"


class Ear:
    """Listens for a service in a thread of its own: whether it has answered of late."""

    def __init__(self, url: str, silence: float) -> None:
        self._url, self._silence = url, silence
        self._closed = threading.Event()
        self._last = time.monotonic()
        threading.Thread(target=self._listen, daemon=True).start()

    def expect(self, within: float) -> None:
        """It has just been started, and may be silent for so long more."""
        self._last = time.monotonic() + within

    def silent(self) -> bool:
        """Whether it has not answered for longer than it may."""
        return time.monotonic() - self._last > self._silence

    def close(self) -> None:
        """Listen no more."""
        self._closed.set()

    def _listen(self) -> None:
        while not self._closed.wait(min(_LISTEN_EVERY, self._silence / 4)):
            if answers_at_all(self._url):
                self._last = time.monotonic()


def answers_at_all(url: str) -> bool:
    """Whether there is any answer at all: one that is busy, or wants a token, lives too."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, http.client.HTTPException):
        return False


def _answers(url: str) -> bool:
    token = os.environ.get("REWARDS_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
