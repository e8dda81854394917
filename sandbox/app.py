"""The HTTP interface.

POST /v1/execute      a submission -> its result (see schema.py); 401 without the token, 408 it
                      did not arrive in time, 409 an id used before for another, 413 too large,
                      422 what is wrong where, 429 with Retry-After when there is no room, 503 when
                      the service stops
                      with a result: header Sandbox-Version, as in the capabilities
GET  /v1/capabilities version, tier and what it enforces, languages, the self-test's outcome
GET  /healthz         200 while the service runs; needs no token
GET  /readyz          200 when programs can be run, else 503
GET  /metrics         Prometheus text
GET  /openapi.json    this interface as OpenAPI
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from sandbox.desk import Conflict, Desk, Overloaded
from sandbox.judging.asserts import BadTest
from sandbox.metrics import Metrics
from sandbox.schema import Capabilities, Result, Submission, parse_submission
from sandbox.slots import Pool
from sandbox.version import HEADER

BODY = 64 * 2**20
"""Most bytes of a request's body."""

_BODY_WITHIN = 60.0
"""Seconds in which it has to arrive."""

_LARGE = 2**20
"""A body of more bytes is not read while there is no room for what is in it."""

_BUSY = {"Retry-After": "1"}
_REFUSALS = (401, 408, 409, 413, 422, 429, 503)
_CLIENT_GONE = 499


def create_app(
    desk: Desk, pool: Pool, metrics: Metrics, capabilities: Capabilities, token: str | None
) -> FastAPI:
    """The application; `token` guards all but /healthz, if there is one."""
    app = FastAPI(title="posttrain sandbox", version="1", openapi_url=None)  # And so no /docs.
    guarded = APIRouter(dependencies=[Depends(_guard(token))])
    _add_execution(guarded, desk, capabilities.version)
    _add_probes(guarded, pool, metrics, capabilities)
    guarded.get("/openapi.json", include_in_schema=False)(app.openapi)
    app.include_router(guarded)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """That the service runs."""
        return {"status": "ok"}

    return app


def _guard(token: str | None) -> Callable[..., None]:
    secret = None if token is None else f"Bearer {token}".encode()

    def check(authorization: Annotated[str, Header()] = "") -> None:
        if secret is not None and not hmac.compare_digest(authorization.encode(), secret):
            raise HTTPException(
                401, "give the token: `Authorization: Bearer ...`", {"WWW-Authenticate": "Bearer"}
            )

    return check


def _add_execution(router: APIRouter, desk: Desk, version: str) -> None:
    @router.post(
        "/v1/execute",
        responses={200: {"model": Result}, **{code: {} for code in _REFUSALS}},
        openapi_extra={"requestBody": {"content": {"application/json": {"schema": _schema()}}}},
    )
    async def execute(request: Request) -> Response:
        """Judge one submission."""
        if int(request.headers.get("Content-Length", 0)) > _LARGE:
            with _refusals():
                desk.check_room()
        submission = _parsed(await _body(request))
        result = await _unless_gone(request, _judged(desk, submission))
        if result is None:
            return Response(status_code=_CLIENT_GONE)
        told = {HEADER: version}
        return Response(result.model_dump_json(), media_type="application/json", headers=told)


def _schema() -> dict[str, Any]:
    """Any JSON object: the exact shapes are those of `Submission` and refused in detail."""
    return {"type": "object", "required": ["id", "mode", "code"]}


async def _body(request: Request) -> bytes:
    try:
        async with asyncio.timeout(_BODY_WITHIN):
            return await _received(request)
    except TimeoutError:
        late = f"the body did not arrive within {_BODY_WITHIN:g} s"
        raise HTTPException(408, late, {"Connection": "close"}) from None


async def _received(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY:
            raise HTTPException(413, f"a body has at most {BODY} bytes")
        parts.append(part)
    return b"".join(parts)


def _parsed(body: bytes) -> Submission:
    try:
        return parse_submission(body)
    except ValidationError as fault:
        errors = fault.errors(include_url=False, include_context=False, include_input=False)
        raise HTTPException(422, errors) from None
    except ValueError as fault:
        raise HTTPException(422, str(fault)) from None


async def _judged(desk: Desk, submission: Submission) -> Result:
    with _refusals():
        return await desk.result(submission)


@contextmanager
def _refusals() -> Iterator[None]:
    """What the desk refuses, told in HTTP."""
    try:
        yield
    except Overloaded:
        raise HTTPException(429, "no room now; try again", _BUSY) from None
    except Conflict as fault:
        raise HTTPException(409, str(fault)) from None
    except BadTest as fault:
        raise HTTPException(422, str(fault)) from None


async def _unless_gone(request: Request, work: Awaitable[Result]) -> Result | None:
    """What `work` gives; None, with `work` given up, once the client has closed the connection."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    except asyncio.CancelledError:  # Only the server's end cancels a request.
        raise HTTPException(503, "the service is stopping", _BUSY) from None
    finally:
        for task in (working, leaving):
            task.cancel()
        with suppress(asyncio.CancelledError, HTTPException):
            await working


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_probes(
    router: APIRouter, pool: Pool, metrics: Metrics, capabilities: Capabilities
) -> None:
    @router.get("/v1/capabilities")
    async def capable() -> Capabilities:
        """What the service offers."""
        return capabilities

    @router.get("/readyz", responses={503: {}})
    async def readyz() -> Response:
        """Whether programs can be run."""
        if not pool.ready:
            pool.try_all()
        return JSONResponse({"ready": pool.ready}, 200 if pool.ready else 503)

    @router.get("/metrics")
    async def metric() -> Response:
        """Counters and times in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")
