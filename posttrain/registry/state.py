"""What a history says: pure functions of its events."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from posttrain.registry.events import Event, Move, Removal, SignOff, Version, Waiver


def stacks(events: Iterable[Event]) -> dict[str, tuple[Version, ...]]:
    """Alias -> what it points to, last, and what it can be rolled back to, before that."""
    found: dict[str, tuple[Version, ...]] = {}
    for event in events:
        if isinstance(event, Move):
            before = found.get(event.alias, ())
            kept = (*before, event.checkpoint) if event.event == "promote" else before[:-1]
            found[event.alias] = kept
    return found


def removed(events: Iterable[Event], event: str = "retire") -> dict[str, Removal]:
    """Address -> the event by which it was retired, or (`collect`) its files were removed."""
    return {
        found.checkpoint.address: found
        for found in events
        if isinstance(found, Removal) and found.event == event
    }


def waivers(events: Iterable[Event], checkpoint: Version, now: datetime) -> dict[str, Waiver]:
    """Gate -> the waiver that holds for it at `now`; the last one if there are several."""
    return {
        event.gate: event
        for event in events
        if isinstance(event, Waiver) and event.checkpoint == checkpoint and event.valid(now)
    }


def sign_off(events: Sequence[Event], checkpoint: Version, alias: str) -> SignOff | None:
    """The last word on whether `checkpoint` may become `alias`, whenever it was said."""
    for event in reversed(events):
        if isinstance(event, SignOff) and (event.checkpoint, event.alias) == (checkpoint, alias):
            return event
    return None
