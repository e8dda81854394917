"""The HTTP face of the pool. Bodies are read by pydantic alone, which is several times faster.

POST /v1/score   one item or {"items": [...]} -> {"verdicts": [...]}; 422 what is wrong with the
                 body, 503 with Retry-After when the queue is full or the service stops
GET  /healthz    200 while the service runs; what it serves
GET  /readyz     200 when a warm worker is there, else 503
GET  /metrics    Prometheus text
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from rewards import schema
from rewards.metrics import Metrics
from rewards.workers import Overloaded, Pool

_BUSY = {"Retry-After": "1"}


def create_app(pool: Pool, metrics: Metrics) -> FastAPI:
    """The application; its lifespan is the pool's."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with pool:
            yield

    app = FastAPI(title="posttrain rewards", version="1", lifespan=lifespan)
    _add_scoring(app, pool)
    _add_probes(app, pool, metrics)
    return app


def _add_scoring(app: FastAPI, pool: Pool) -> None:
    @app.post("/v1/score", responses={200: {"model": schema.Response}, 422: {}, 503: {}})
    async def score(request: Request) -> Response:
        """Verdicts on one item, or on `items`, in their order."""
        try:
            items = schema.parse_request(await request.body())
        except ValueError as fault:
            return JSONResponse({"detail": _explained(fault)}, 422)
        try:
            verdicts = await pool.check(items)
        except Overloaded:
            return JSONResponse({"detail": "the queue is full; try again"}, 503, _BUSY)
        except asyncio.CancelledError:  # Only the server's end cancels a request.
            return JSONResponse({"detail": "the service is stopping"}, 503, _BUSY)
        body = schema.Response.model_construct(verdicts=verdicts).model_dump_json()
        return Response(body, media_type="application/json")


def _explained(fault: ValueError) -> Any:
    """Pydantic's account of each error, without the input, which may be long; or the text."""
    if not isinstance(fault, ValidationError):
        return str(fault)
    return fault.errors(include_url=False, include_context=False, include_input=False)


def _add_probes(app: FastAPI, pool: Pool, metrics: Metrics) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, Any]:
        """That the service runs, and what it serves."""
        return {"status": "ok", "verifiers": list(pool.verifiers), "version": version("posttrain")}

    @app.get("/readyz")
    async def readyz() -> Response:
        """Whether items are verified at once."""
        return JSONResponse({"ready": pool.ready}, 200 if pool.ready else 503)

    @app.get("/metrics")
    async def metric() -> Response:
        """Counters and times in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")
