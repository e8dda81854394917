"""A run's reward service: asked with its token whether it is ready, given up where that is vain."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from posttrain.recipe.schema import RewardService
from posttrain.services import Rewards, ServiceFailed, _answers
from posttrain.store import Store


class Guarded(BaseHTTPRequestHandler):
    """Ready for those with the token."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == "Bearer secret"
        self.send_response(200 if known else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.mark.parametrize(("token", "ready"), [("secret", True), ("other", False), ("", False)])
def test_readiness_is_asked_with_the_token(
    monkeypatch: pytest.MonkeyPatch, token: str, ready: bool
) -> None:
    monkeypatch.setenv("REWARDS_TOKEN", token)
    with HTTPServer(("127.0.0.1", 0), Guarded) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert _answers(f"http://127.0.0.1:{server.server_port}/readyz") == ready
        thread.join(10)


def test_wrong_settings_end_the_run_at_once_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a service listens before it finds out; it was started 20 times over."""
    monkeypatch.delenv("JUDGE_TEMPLATES", raising=False)
    (tmp_path / "runs" / "r" / "logs").mkdir(parents=True)
    service = Rewards(RewardService(verifiers=("judge",)), Store(tmp_path), "r")
    service.start()
    try:
        with pytest.raises(ServiceFailed, match=r"ended at its start: rewards: .*JUDGE_TEMPLATES"):
            service.await_ready()
    finally:
        service.stop()
    log = (tmp_path / "runs" / "r" / "logs" / "rewards.log").read_text()
    assert log.count("JUDGE_TEMPLATES") == 1
