"""A run's reward service is asked whether it is ready with the token it wants."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from posttrain.services import _answers


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
