"""What the service is compared with: `exact`, a trivial exact match; `pool`, a naive process pool.

Each is a FastAPI application on one uvicorn process at its best settings.
"""

import argparse
import asyncio
import ctypes
import multiprocessing
import signal
import socket
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from tests.bench import math_verify

_PR_SET_PDEATHSIG = 1


class Item(BaseModel):
    """What both take."""

    id: str
    verifier: str
    response: str
    gold: str


class Score(BaseModel):
    """What both give."""

    id: str
    score: float


def exact() -> FastAPI:
    """Exact match of the whole response."""
    app = FastAPI()

    @app.post("/v1/score")
    async def score(item: Item) -> Score:
        return Score(id=item.id, score=float(item.response == item.gold))

    return app


def pool(workers: int) -> FastAPI:
    """Math-Verify in a pool of processes, started anew rather than forked from this one."""
    app = FastAPI()
    context = multiprocessing.get_context("spawn")
    processes = ProcessPoolExecutor(workers, context, _end_with_parent)

    @app.post("/v1/score")
    async def score(item: Item) -> Score:
        loop = asyncio.get_running_loop()
        right = await loop.run_in_executor(processes, math_verify.judge, item.gold, item.response)
        return Score(id=item.id, score=float(right))

    return app


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["exact", "pool"])
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    app = exact() if options.peer == "exact" else pool(options.workers)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        options.port_file.write_text(str(listener.getsockname()[1]))
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", access_log=False, log_level="warning"
        )
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
