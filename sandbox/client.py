"""Client of the sandbox service. What is our fault is an exception, never a result.

A request is sent again, with growing pauses, while the service is out of reach, has no room, or
answers IE, up to `patience` seconds in all; a submission is never judged twice by that.
"""

from types import TracebackType
from typing import Self

import aiohttp
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    RetryError,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from sandbox.schema import Result, Submission

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_REFUSALS = (401, 409, 413, 422)


class SandboxUnavailable(Exception):
    """No result can be had; `reason` is a short code: unreachable, overload, protocol, internal."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class SandboxRefused(ValueError):
    """The service refuses the submission, and will again."""


class SandboxClient:
    """Has programs judged over HTTP; use as `async with`.

    `timeout` bounds one request and `patience` the time in which new tries begin, in seconds.
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
            retry=retry_if_exception_type(SandboxUnavailable),
            wait=wait_random_exponential(_FIRST_PAUSE, _LONGEST_PAUSE),
            stop=stop_after_delay(self._patience),
        )
        body = submission.model_dump_json().encode()
        try:
            return await retrying(self._once, submission.id, body)
        except RetryError as last:
            fault = last.last_attempt.exception()
        assert isinstance(fault, SandboxUnavailable)
        raise fault

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
                return _result(name, reply.status, await reply.read())
        except (aiohttp.ClientError, TimeoutError) as fault:
            why = f"{self._url}: {fault or 'timed out'}"
            raise SandboxUnavailable("unreachable", why) from None


def _result(name: str, status: int, body: bytes) -> Result:
    if status in _REFUSALS:
        raise SandboxRefused(f"the sandbox refuses: HTTP {status}: {body[:500].decode()}")
    if status != 200:
        reason = "overload" if status in (429, 503) else "protocol"
        raise SandboxUnavailable(reason, f"HTTP {status}: {body[:200]!r}")
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
