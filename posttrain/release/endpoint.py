"""An OpenAI-compatible endpoint, asked with bounded patience. Standard library only."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any
from urllib.parse import SplitResult, urlsplit

Body = Mapping[str, Any]

_PIECE = 1 << 16
_BEFORE_GONE = 2.0
"""Seconds after which an endpoint that did not answer is asked whether it is there at all."""


class Gone(RuntimeError):
    """Nobody answers at the endpoint any more."""


class Unanswered(RuntimeError):
    """One request got no whole answer, while the endpoint answers others."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `body` is its JSON, or its text where it is none."""

    status: int
    body: Any

    @property
    def told(self) -> str:
        """Status and message in one line, for a reason."""
        said = self.body
        if isinstance(said, Mapping):
            error = said.get("error")
            said = error.get("message") if isinstance(error, Mapping) else said.get("message", said)
        return f"status {self.status}: {' '.join(str(said).split())[:160]}"


@dataclass(frozen=True)
class Streamed:
    """The events of a streamed answer; `done` tells if it was closed as it must be."""

    status: int
    events: list[Any] = field(default_factory=list)
    done: bool = False


class Endpoint:
    """`url` is the base that ends in /v1; `patience` seconds are given to each request."""

    def __init__(self, url: str, model: str, *, key: str | None = None, patience: float = 120.0):
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            raise ValueError(f"{url!r} is no URL of an endpoint; write http://HOST:PORT/v1")
        self.model, self.patience = model, patience
        self.base = parts.path.rstrip("/")
        self._parts = parts
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    @property
    def url(self) -> str:
        """Where it is."""
        return self._parts.geturl()

    def get(self, path: str) -> Answer:
        """A GET below the base."""
        return self._answer("GET", self.base + path, None)

    def post(self, path: str, body: Body | bytes) -> Answer:
        """A POST below the base."""
        return self._answer("POST", self.base + path, body)

    def beside(self, path: str, body: Body | None = None) -> Answer:
        """A request beside the base, where vLLM has `/health` and `/tokenize`."""
        root = self.base.removesuffix("/v1")
        return self._answer("GET" if body is None else "POST", root + path, body)

    def stream(self, path: str, body: Body) -> Streamed:
        """A POST whose answer is read as server-sent events; Unanswered if it breaks off."""
        connection = self._connection(self.patience)
        try:
            response = self._asked(connection, "POST", self.base + path, {**body, "stream": True})
            if response.status != 200:
                return Streamed(response.status)
            return Streamed(200, *_events(response, time.monotonic() + self.patience))
        except (OSError, HTTPException, ValueError) as fault:
            raise self._lost(path, fault) from None
        finally:
            connection.close()

    def _answer(self, method: str, path: str, body: Body | bytes | None) -> Answer:
        connection = self._connection(self.patience)
        try:
            response = self._asked(connection, method, path, body)
            text = _whole(response, self.patience).decode("utf-8", "replace")
        except (OSError, HTTPException) as fault:
            raise self._lost(path, fault) from None
        finally:
            connection.close()
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text)

    def _connection(self, patience: float) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        assert self._parts.hostname is not None
        return kind(self._parts.hostname, self._parts.port, timeout=patience)

    def _asked(
        self, connection: HTTPConnection, method: str, path: str, body: Body | bytes | None
    ) -> HTTPResponse:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path or "/", raw, self._headers)
        return connection.getresponse()

    def _lost(self, path: str, fault: Exception) -> Exception:
        """Gone, or Unanswered if the endpoint still answers something else."""
        why = "no answer in time" if isinstance(fault, TimeoutError) else str(fault)
        told = f"{path} was not answered ({why or type(fault).__name__})"
        if self._answers():
            return Unanswered(told)
        return Gone(f"the endpoint {self.url} is gone: {told}")

    def _answers(self) -> bool:
        """Whether it answers within some seconds, also if it is just busy."""
        for patience in (5.0, 15.0):
            connection = self._connection(patience)
            try:
                _whole(self._asked(connection, "GET", f"{self.base}/models", None), patience)
            except (OSError, HTTPException):
                time.sleep(_BEFORE_GONE)
            else:
                return True
            finally:
                connection.close()
        return False


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is one, or left out."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _events(response: HTTPResponse, deadline: float) -> tuple[list[Any], bool]:
    """The events up to the closing one; TimeoutError after `deadline` (monotonic)."""
    events: list[Any] = []
    for data in _data(response, deadline):
        if data == "[DONE]":
            return events, True
        events.append(json.loads(data))
    return events, False


def _data(response: HTTPResponse, deadline: float) -> Iterator[str]:
    for line in _lines(response, deadline):
        text = line.decode("utf-8", "replace").strip()
        if text.startswith("data:"):
            yield text.removeprefix("data:").strip()


def _lines(response: HTTPResponse, deadline: float) -> Iterator[bytes]:
    rest = b""
    for piece in _pieces(response, deadline):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


def _whole(response: HTTPResponse, patience: float) -> bytes:
    return b"".join(_pieces(response, time.monotonic() + patience))


def _pieces(response: HTTPResponse, deadline: float) -> Iterator[bytes]:
    """The body as it comes; TimeoutError after `deadline` (monotonic), however it drips."""
    while piece := response.read1(_PIECE):
        if time.monotonic() > deadline:
            raise TimeoutError
        yield piece
    if response.length:
        raise IncompleteRead(b"", response.length)
