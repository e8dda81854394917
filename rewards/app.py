"""The HTTP interface: scoring in front (see front.py), what is asked now and then behind it.

POST /v1/score      one item or {"items": [...]} -> {"verdicts": [...]}, in JSON or msgpack; 401
                    without the token, 413 too large, 415 another medium, 422 what is wrong where,
                    429 with Retry-After when the queue is full, 503 when the service stops;
                    with `Cache-Control: no-cache` no verdict is one that was remembered
GET  /v1/verifiers  what is served: shapes of gold and parameters, version digests
GET  /healthz       200 while the service runs; needs no token
GET  /readyz        200 when a canary of every verifier passed, else 503; the reasons
GET  /metrics       Prometheus text
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp

from rewards.arrivals import Arrivals
from rewards.front import Front
from rewards.metrics import Metrics
from rewards.nursery import StartFault
from rewards.openapi import described
from rewards.service import Service

_BODY_WITHIN = 60.0
"""Seconds in which a request's body has to arrive."""


def create_app(service: Service, metrics: Metrics, token: str | None = None) -> ASGIApp:
    """The application; its lifespan is the service's."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service, arrivals:
            yield

    arrivals = Arrivals(_BODY_WITHIN)
    app = FastAPI(title="posttrain rewards", version="1", lifespan=lifespan)
    _add_probes(app, service, metrics)
    app.openapi = lambda: described(app, guarded=token is not None)  # type: ignore[method-assign]
    return Front(app, service, metrics, arrivals, token)


def _add_probes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/v1/verifiers", responses={503: {"description": "It cannot serve"}})
    async def verifiers() -> dict[str, Any]:
        """What is served: shapes of gold and parameters, and version digests."""
        try:
            await service.started()
        except StartFault as fault:
            raise HTTPException(503, str(fault)) from None
        rows = [profile.model_dump(exclude={"canaries"}) for profile in service.profiles]
        return {"verifiers": rows}

    @app.get("/healthz")
    async def healthz() -> dict[str, Any]:
        """That the service runs, and what it serves."""
        names = service.verifiers
        return {"status": "ok", "verifiers": names, "version": version("posttrain")}

    @app.get("/readyz", responses={503: {"description": "Not ready"}})
    async def readyz() -> Response:
        """Whether items are verified at once, and which verifier is not ready for what reason."""
        ready, report = service.ready()
        return JSONResponse(report, 200 if ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metric() -> Response:
        """Counters and times in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")
