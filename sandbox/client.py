"""Client of the sandbox service. What is our fault is an exception, never a result.

A request is sent again while the service is out of reach, has no room, answers IE or no result, up
to `patience` seconds in all; pauses grow, and are as long as the service asks for. What the service
still remembers is not judged again by that. A service whose code is not ours may judge otherwise
than our version says, so nothing of it is taken.
"""

from types import TracebackType
from typing import Self

import aiohttp
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from sandbox.schema import Result, Submission
from sandbox.version import HEADER, version

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_REFUSALS = (413, 422)
_FINAL = ("denied", "conflict", "version")
_DENIED = "the sandbox refuses the token; set SANDBOX_TOKEN"


class SandboxUnavailable(Exception):
    """No result can be had; `reason` is a short code, `pause` the seconds the service asks to wait.

    unreachable, overload, protocol, internal: nor after other tries. denied: the token is wrong.
    conflict: another submission had this id. version: the service's code is not ours.
    """

    def __init__(self, reason: str, detail: str, pause: float = 0.0) -> None:
        super().__init__(detail)
        self.reason = reason
        self.pause = pause


class SandboxRefused(ValueError):
    """The service refuses the submission, and will again."""


class SandboxClient:
    """Has programs judged over HTTP; use as `async with`.

    `timeout` bounds one request and `patience` the time in which new tries begin, in seconds. Give
    the `token` that the service was given, if any.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 600.0,
        patience: float = 30.0,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0)  # The service bounds what it takes.
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, connector=connector, headers=self._headers
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def execute(self, submission: Submission) -> Result:
        """The result, with any verdict but IE. SandboxUnavailable, or SandboxRefused."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            wait=_pause,
            stop=stop_before_delay(self._patience),
            reraise=True,
        )
        body = submission.model_dump_json().encode()
        return await retrying(self._once, submission.id, body)

    async def ready(self) -> bool:
        """Whether programs are run at once."""
        assert self._session is not None, "use the client as `async with`"
        try:
            async with self._session.get(f"{self._url}/readyz") as reply:
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _once(self, name: str, body: bytes) -> Result:
        assert self._session is not None, "use the client as `async with`"
        try:
            async with self._session.post(f"{self._url}/v1/execute", data=body) as reply:
                content = await reply.read()
                if reply.status != 200:
                    pause = reply.headers.get("Retry-After", "")
                    raise _fault(reply.status, content.decode(errors="replace"), pause)
                _check_version(reply.headers.get(HEADER), self._url)
                return _result(name, content)
        except (aiohttp.ClientError, TimeoutError) as fault:
            why = f"{self._url}: {fault or 'timed out'}"
            raise SandboxUnavailable("unreachable", why) from None


def _check_version(theirs: str | None, url: str) -> None:
    if theirs != version():
        raise SandboxUnavailable(
            "version",
            f"{url} judges by version {(theirs or 'unknown')[:12]}, and we by {version()[:12]}: "
            "install the same release of posttrain there and here",
        )


def _may_pass(fault: BaseException) -> bool:
    """Whether it may be otherwise the next time."""
    return isinstance(fault, SandboxUnavailable) and fault.reason not in _FINAL


_grown = wait_random_exponential(_FIRST_PAUSE, _LONGEST_PAUSE)


def _pause(state: RetryCallState) -> float:
    """Seconds until the next try."""
    assert state.outcome is not None
    fault = state.outcome.exception()
    assert isinstance(fault, SandboxUnavailable)
    return max(fault.pause, _grown(state))


def _fault(status: int, text: str, pause: str) -> SandboxRefused | SandboxUnavailable:
    """What an answer without a result means; `pause` is its Retry-After, in seconds or a date."""
    if status in (401, 403):
        return SandboxUnavailable("denied", _DENIED)
    if status == 409:
        return SandboxUnavailable("conflict", text[:500])
    if status in _REFUSALS:
        return SandboxRefused(f"the sandbox refuses: HTTP {status}: {text[:500]}")
    reason = "overload" if status in (429, 503) else "protocol"
    seconds = float(pause) if pause.isascii() and pause.isdigit() else 0.0
    return SandboxUnavailable(reason, f"HTTP {status}: {text[:200]!r}", seconds)


def _result(name: str, body: bytes) -> Result:
    try:
        result = Result.model_validate_json(body)
    except ValidationError as fault:
        raise SandboxUnavailable("protocol", f"not a result: {fault}") from None
    if result.id != name:
        raise SandboxUnavailable("protocol", "the result is another's")
    if result.verdict == "IE":
        raise SandboxUnavailable("internal", result.detail or _first_detail(result))
    return result


def _first_detail(result: Result) -> str:
    return next((test.detail or "" for test in result.tests if test.verdict == "IE"), "")
