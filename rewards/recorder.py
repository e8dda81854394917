"""Verdicts written to the ledger before anybody hears of them, outside the event loop.

Responses that come up while others are written go together, so that the loop waits for one
hand-over and not for one each.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from rewards.schema import Entry, Verdict


class Ledger(Protocol):
    """What the service needs of a ledger: see rewards.ledger."""

    def append(
        self,
        items: Sequence[Entry],
        verdicts: Sequence[Verdict],
        *,
        digests: Mapping[str, str] | None = None,
        latency_ms: float | None = None,
    ) -> None:
        """Add one record for each item; durable on return. OSError where the disk is full."""

    def check(self) -> None:
        """OSError if what was added is not there any more."""


@dataclass(frozen=True)
class _Entry:
    items: Sequence[Entry]
    verdicts: Sequence[Verdict]
    latency_ms: float
    written: asyncio.Future[None]


class Recorder:
    """Writes to one ledger; `digests` are the versions of the verifiers, by name."""

    def __init__(self, ledger: Ledger, digests: Mapping[str, str]) -> None:
        self._ledger = ledger
        self._digests = digests
        self._thread = ThreadPoolExecutor(1, "ledger")
        self._pending: list[_Entry] = []
        self._writing = False

    async def record(
        self, items: Sequence[Entry], verdicts: Sequence[Verdict], latency_ms: float
    ) -> None:
        """Return once the verdicts are in the ledger; OSError if they cannot be."""
        written = asyncio.get_running_loop().create_future()
        self._pending.append(_Entry(items, verdicts, latency_ms, written))
        self._write()
        await written

    def close(self) -> None:
        """End the writer; what it has been given is written first."""
        self._thread.shutdown(wait=True)

    def _write(self) -> None:
        if self._writing or not self._pending:
            return
        self._writing = True
        lot, self._pending = self._pending, []
        loop = asyncio.get_running_loop()
        outcome = loop.run_in_executor(self._thread, self._append, lot)
        outcome.add_done_callback(lambda done: self._written(lot, done))

    def _append(self, lot: Sequence[_Entry]) -> list[Exception | None]:
        return [self._append_one(entry) for entry in lot]

    def _append_one(self, entry: _Entry) -> Exception | None:
        try:
            self._ledger.append(
                entry.items, entry.verdicts, digests=self._digests, latency_ms=entry.latency_ms
            )
        except Exception as fault:  # noqa: BLE001 - told to the one request it belongs to
            return fault
        return None

    def _written(self, lot: Sequence[_Entry], done: asyncio.Future[list[Exception | None]]) -> None:
        self._writing = False
        bug = done.exception()
        faults = [bug] * len(lot) if bug is not None else done.result()
        for entry, fault in zip(lot, faults, strict=True):
            if entry.written.done():
                continue  # Of a request that has gone.
            if fault is None:
                entry.written.set_result(None)
            else:
                entry.written.set_exception(fault)
        self._write()
