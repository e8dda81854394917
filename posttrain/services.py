"""Services a run relies on: started before the first stage that needs them, watched, stopped.

A service that dies is started again on its port, so that its clients' bounded retries reach it.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from posttrain.recipe.schema import RewardService
from posttrain.store import Store

_READY_WITHIN = 90.0
_RESTARTS = 20
_WRONG_SETTINGS = 2
"""Exit code of a service that cannot serve what it was told to."""


class ServiceFailed(RuntimeError):
    """A service could not be started or kept up."""


class Rewards:
    """The reward service of a run: the recipe's `url`, or a process of ours on loopback."""

    def __init__(self, config: RewardService, store: Store, run: str) -> None:
        self._config = config
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
        """Start it again if it died; returns whether it had.

        ServiceFailed when it keeps dying, and at once if its settings are wrong or it never came
        so far as to listen.
        """
        if self._process is None or self._process.poll() is None:
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
        return True

    def stop(self) -> None:
        """End the process within 10 s."""
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


def _answers(url: str) -> bool:
    token = os.environ.get("REWARDS_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
