"""Moves of aliases, retirement and removal: each is decided on the whole history and recorded."""

import getpass
import os
import time
from collections.abc import Iterator, Sequence
from datetime import date

from posttrain import names
from posttrain.gates import Finding
from posttrain.registry import retention, state
from posttrain.registry.events import (
    Event,
    Move,
    Removal,
    SignOff,
    Version,
    Waiver,
    version,
)
from posttrain.registry.history import History
from posttrain.registry.kinds import CHECKPOINT_KINDS
from posttrain.store import Artifact, Store

_STALE = 3600.0
"""Seconds after which a prepared event has no maker any more: appending takes a minute at most."""


class Refused(Exception):
    """A promotion whose gates do not all hold."""


class Registry:
    """Aliases of the checkpoints in one store. Several processes and hosts may use it at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._history = History(store.root / "registry" / "history")

    def checkpoints(self, run: str | None = None) -> Iterator[Artifact]:
        """All committed checkpoints, or those of one run."""
        return (a for a in self._store.artifacts(run) if a.record.kind in CHECKPOINT_KINDS)

    def history(self, alias: str | None = None) -> list[Event]:
        """All events, or the moves of one alias, oldest first; ValueError if it is damaged."""
        events = self._history.events()
        if alias is None:
            return events
        return [each for each in events if isinstance(each, Move) and each.alias == alias]

    def aliases(self) -> dict[str, str]:
        """Alias -> address it points to now."""
        stacks = state.stacks(self._history.events())
        return {alias: stack[-1].address for alias, stack in stacks.items()}

    def retired(self) -> set[str]:
        """Addresses of the checkpoints that were given up."""
        return set(state.removed(self._history.events()))

    def resolve(self, name: str) -> Artifact:
        """The artifact at an address, or the one that an alias points to, if it is still that.

        ValueError if the name is unknown, or what lies there now is not what was promoted.
        """
        if "@" in name:
            return self._store.get(name)
        stacks = state.stacks(self._history.events())
        if name not in stacks:
            hint = names.nearest(name, stacks) if stacks else "there are none yet"
            raise ValueError(f"{name[:60]!r} is neither run/stage@number nor an alias; {hint}")
        return self._present(stacks[name][-1])

    def promote(self, checkpoint: Artifact, alias: str, findings: Sequence[Finding]) -> bool:
        """Point `alias` to `checkpoint`; False if it already does. Refused if a gate fails.

        ValueError if it is no checkpoint, auxiliary, retired, or its files are not as recorded.
        """
        names.checked(alias)
        _check_promotable(checkpoint)
        failed = [finding for finding in findings if not finding.passed]
        if failed or not findings:
            why = "; ".join(f"{finding.gate}: {finding.figures}" for finding in failed)
            raise Refused(f"{checkpoint.address} may not become {alias}: {why or 'no gates'}")
        checkpoint.verify()

        def decide(events: Sequence[Event]) -> Event | None:
            if retired := state.removed(events).get(checkpoint.address):
                raise ValueError(
                    f"{checkpoint.address} was retired by {retired.author}: {retired.reason}"
                )
            stack = state.stacks(events).get(alias, ())
            if stack and stack[-1].address == checkpoint.address:
                return None
            told = tuple(finding.told() for finding in findings)
            return Move(
                event="promote", author=author(), checkpoint=version(checkpoint), alias=alias,
                gates=told,
            )  # fmt: skip

        return self._history.append(decide) is not None

    def rollback(self, alias: str) -> tuple[str, str]:
        """Point `alias` to where it was before its last promotion; returns (from, to).

        ValueError if there is no such place, or the files there are not those of then.
        """
        names.checked(alias)
        _check_rollback(state.stacks(self._history.events()), alias)
        moved: list[Version] = []

        def decide(events: Sequence[Event]) -> Event:
            moved[:] = _check_rollback(state.stacks(events), alias)
            self._present(moved[1]).verify()
            return Move(event="rollback", author=author(), checkpoint=moved[1], alias=alias)

        self._history.append(decide)
        return moved[0].address, moved[1].address

    def waive(
        self, checkpoint: Artifact, gate: str, *, reason: str, expires: date, by: str
    ) -> Event | None:
        """Record that `checkpoint` may be promoted although `gate` fails."""
        waiver = Waiver(
            event="waive", author=by, checkpoint=version(checkpoint), gate=gate, reason=reason,
            expires=expires,
        )  # fmt: skip
        return self._history.append(lambda events: waiver)

    def sign(
        self, checkpoint: Artifact, alias: str, *, approves: bool, reason: str, expires: date,
        by: str,
    ) -> Event | None:  # fmt: skip
        """Record a person's word on whether `checkpoint` may become `alias`."""
        signed = SignOff(
            event="sign", author=by, checkpoint=version(checkpoint), alias=names.checked(alias),
            approves=approves, reason=reason, expires=expires,
        )  # fmt: skip
        return self._history.append(lambda events: signed)

    def retire(self, checkpoint: Artifact, reason: str) -> bool:
        """Mark a checkpoint as one that may be removed; False if it is. ValueError if needed."""
        if checkpoint.record.kind not in CHECKPOINT_KINDS:
            raise ValueError(f"{checkpoint.address} is a {checkpoint.record.kind}, no checkpoint")

        def decide(events: Sequence[Event]) -> Event | None:
            if checkpoint.address in state.removed(events):
                return None
            shelf = retention.read(self._store, events)
            why = retention.reasons(shelf, without=checkpoint.address).get(checkpoint.address)
            if why:
                raise ValueError(f"{checkpoint.address} cannot be retired: {'; '.join(why)}")
            return Removal(
                event="retire", author=author(), checkpoint=version(checkpoint), reason=reason
            )

        return self._history.append(decide) is not None

    def garbage(self) -> list[Artifact]:
        """What `collect` would remove: retired, or made from such, and needed by nothing."""
        return retention.garbage(retention.read(self._store, self._history.events()))

    def collect(self) -> list[Artifact]:
        """Remove the files of all garbage, each recorded before it goes; returns what went.

        Records stay and addresses are not given out again. Killed midway, a repeat goes on.
        """
        self._store.sweep()
        for leftover in self._history.leftovers(time.time() - _STALE):
            leftover.unlink(missing_ok=True)
        return [each for each in self.garbage() if self._collect(each)]

    def _collect(self, artifact: Artifact) -> bool:
        def decide(events: Sequence[Event]) -> Event | None:
            if artifact.address in state.removed(events, "collect"):
                return None
            present = retention.garbage(retention.read(self._store, events))
            if artifact.address not in {each.address for each in present}:
                raise _Needed
            return Removal(
                event="collect", author=author(), checkpoint=version(artifact),
                reason="nothing needs it",
            )  # fmt: skip

        try:
            self._history.append(decide)
        except _Needed:
            return False
        self._store.remove(artifact)
        return True

    def _present(self, wanted: Version) -> Artifact:
        """The artifact that `wanted` names; ValueError if another lies there."""
        found = self._store.get(wanted.address)
        if version(found) != wanted:
            raise ValueError(
                f"{wanted.address} is not what was promoted: digest {found.record.digest[:12]}, "
                f"then {wanted.digest[:12]}; restore the folder {found.path}"
            )
        return found


class _Needed(Exception):
    """What was garbage is needed after all."""


def author() -> str:
    """The name of the user, or the number where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _check_promotable(checkpoint: Artifact) -> None:
    record = checkpoint.record
    if record.kind not in CHECKPOINT_KINDS:
        raise ValueError(f"{checkpoint.address} is a {record.kind}, no checkpoint")
    if record.facts.get("auxiliary"):
        raise ValueError(
            f"{checkpoint.address} is auxiliary: it was made to help another stage, and can never "
            "be promoted"
        )


def _check_rollback(stacks: dict[str, tuple[Version, ...]], alias: str) -> tuple[Version, Version]:
    stack = stacks.get(alias, ())
    if len(stack) < 2:
        raise ValueError(f"alias {alias!r} has no earlier checkpoint to go back to")
    return stack[-1], stack[-2]
