"""What a running service says of itself, and how it does on the canaries known here.

No verdict counts that the service remembers.
"""

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rewards.client import TOKEN, RewardClient
from rewards.verifiers import BUILT_IN, Canary

_PATIENCE = 60.0


@dataclass(frozen=True)
class Finding:
    """One verifier: why it is not ready, if so; how many canaries were asked, and passed."""

    name: str
    runs: str
    digest: str
    reason: str | None
    asked: int
    passed: int
    slowest_ms: float | None


async def probed(url: str) -> list[Finding]:
    """A finding for each verifier.

    ConnectionError if there is no service at `url`, ValueError if it refuses our token.
    """
    async with RewardClient(url, patience=_PATIENCE, fresh=True) as client:
        ((status, readiness),) = await client.ask("/readyz")
        if status not in (200, 503) or "verifiers" not in readiness:
            raise refusal(url, status, readiness)
        if status == 503:
            return [_unready(name, each) for name, each in readiness["verifiers"].items()]
        ((status, served),) = await client.ask("/v1/verifiers")
        if status != 200:
            raise refusal(url, status, served)
        return [await _finding(client, row, readiness["verifiers"]) for row in served["verifiers"]]


async def unready(urls: Sequence[str]) -> list[str]:
    """A line for each of `urls` that is not ready; raises as `probed` if none answers."""
    async with RewardClient(urls) as client:
        replies = await client.ask("/readyz")
    faults = [
        refusal(url, status, content)
        for url, (status, content) in zip(urls, replies, strict=True)
        if status not in (200, 503)
    ]
    if len(faults) == len(urls):
        raise faults[0]
    waiting = [url for url, (status, _) in zip(urls, replies, strict=True) if status == 503]
    return [*map(str, faults), *(f"{url} is not ready yet" for url in waiting)]


def refusal(url: str, status: int, content: Any) -> Exception:
    """Why `url` did not answer as a reward service: ValueError or ConnectionError."""
    if status in (401, 403):
        return ValueError(f"{url} refuses the token; set {TOKEN}")
    if not status:
        return ConnectionError(str(content))
    said, parts = f"{url} is no reward service: HTTP {status}", urlsplit(url)
    if parts.path.strip("/"):
        said += f"; give the base URL, {parts.scheme}://{parts.netloc}"
    return ConnectionError(said)


def _unready(name: str, state: dict[str, Any]) -> Finding:
    return Finding(name, "", "", state["reason"], 0, 0, None)


async def _finding(client: RewardClient, row: dict[str, Any], readiness: dict[str, Any]) -> Finding:
    name, passed, times = row["name"], 0, []
    canaries = _canaries(name)
    for canary in canaries:
        began = time.monotonic()
        (verdict,) = await client.score([canary.under(name).item])
        times.append(1000 * (time.monotonic() - began))
        passed += canary.passes(verdict)
    reason = readiness[name]["reason"]
    slowest = max(times, default=None)
    return Finding(name, row["runs"], row["digest"], reason, len(canaries), passed, slowest)


def _canaries(name: str) -> Sequence[Canary]:
    """Those of a built-in verifier; none of another, or where what it stands on is missing."""
    if name not in BUILT_IN:
        return []
    try:
        canaries: Sequence[Canary] = importlib.import_module(BUILT_IN[name]).CANARIES
    except ImportError:
        return []
    return canaries
