"""The registry: aliases over checkpoints, moved only by recorded events.

The history is append-only; an alias is what its last event says. Moves are atomic under a lock,
so concurrent commands see and leave a whole history. Only the history is truth: there is no index.
A move that a crash cut short has not happened.
"""

import fcntl
import getpass
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from posttrain import names
from posttrain.gates import Finding
from posttrain.journal import append, lines
from posttrain.store import Artifact, Store

CHECKPOINT_KINDS = ("pretrain", "sft", "rl")


class Refused(Exception):
    """A promotion whose gates do not all hold."""


class Registry:
    """Aliases of the checkpoints in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._history = store.root / "registry" / "history.jsonl"

    def checkpoints(self, run: str | None = None) -> Iterator[Artifact]:
        """All committed checkpoints, or those of one run."""
        return (a for a in self._store.artifacts(run) if a.record.kind in CHECKPOINT_KINDS)

    def history(self, alias: str | None = None) -> list[dict[str, Any]]:
        """All moves, or those of one alias, oldest first; ValueError if a whole line is no move."""
        moves = lines(self._history)
        for move in moves:
            if not all(isinstance(move.get(field), str) for field in ("event", "alias", "to")):
                raise ValueError(f"{self._history} is damaged: {json.dumps(move)} is no move")
        return [move for move in moves if alias in (None, move["alias"])]

    def aliases(self) -> dict[str, str]:
        """Alias -> address it points to now."""
        return {move["alias"]: move["to"] for move in self.history()}

    def promote(self, checkpoint: Artifact, alias: str, findings: Sequence[Finding]) -> bool:
        """Point `alias` to `checkpoint`; False if it already does. Refused if a gate fails."""
        names.checked(alias)
        if checkpoint.record.kind not in CHECKPOINT_KINDS:
            raise ValueError(f"{checkpoint.address} is a {checkpoint.record.kind}, no checkpoint")
        failed = [finding for finding in findings if not finding.passed]
        if failed or not findings:
            why = "; ".join(f"{finding.gate}: {finding.figures}" for finding in failed)
            raise Refused(f"{checkpoint.address} may not become {alias}: {why or 'no gates'}")
        with self._locked():
            if self.aliases().get(alias) == checkpoint.address:
                return False
            self._move("promote", alias, checkpoint.address, findings)
        return True

    def rollback(self, alias: str) -> tuple[str, str]:
        """Point `alias` to where it was before its last promotion; returns (from, to)."""
        names.checked(alias)
        with self._locked():
            stack: list[str] = []
            for move in self.history(alias):
                stack = [*stack, move["to"]] if move["event"] == "promote" else stack[:-1]
            if len(stack) < 2:
                raise ValueError(f"alias {alias!r} has no earlier checkpoint to go back to")
            target = self._store.get(stack[-2])
            self._move("rollback", alias, target.address, ())
        return stack[-1], stack[-2]

    def _move(self, event: str, alias: str, address: str, findings: Sequence[Finding]) -> None:
        gates = [{"gate": f.gate, "passed": f.passed, "figures": f.figures} for f in findings]
        move = {
            "event": event, "alias": alias, "to": address, "by": getpass.getuser(), "gates": gates,
        }  # fmt: skip
        append(self._history, move, sync=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._history.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._history.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
