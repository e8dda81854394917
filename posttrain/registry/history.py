"""The history: numbered events, each in a file that is written once and chained to the one before.

An event is prepared beside the others and linked in under the next number, which fails if another
has that: the loser reads what happened and decides anew. link(2) is atomic on local file systems
and on those that a cluster shares (NFS, Lustre, GPFS), and no lock is held that a dead process or
host could leave behind. A crash leaves an event whole or absent.
"""

import hashlib
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from posttrain.durable import synced
from posttrain.registry.events import EVENT, Event

_WITHIN = 60.0
_PREPARED = ".event."

Decide = Callable[[Sequence[Event]], Event | None]
"""What to do, given all that happened; None if there is nothing to do. It may be asked again."""


class History:
    """The events in `folder`; reading makes no folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def events(self) -> list[Event]:
        """All events, oldest first; ValueError if one is missing, damaged or was changed."""
        found: list[Event] = []
        previous = ""
        for number in range(1, self._last() + 1):
            content = self._content(number)
            event = _parsed(content, self._path(number))
            if (event.number, event.previous) != (number, previous):
                raise ValueError(
                    f"{self._path(number)} is damaged: it does not follow on the event before it; "
                    "restore the history from a backup"
                )
            found.append(event)
            previous = hashlib.sha256(content).hexdigest()
        return found

    def append(self, decide: Decide) -> Event | None:
        """Add the event that `decide` wants after all others; it is durable on return.

        TimeoutError if others were faster for a minute.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _WITHIN
        while time.monotonic() < deadline:
            events = self.events()
            wanted = decide(events)
            if wanted is None:
                return None
            last = len(events)
            previous = hashlib.sha256(self._content(last)).hexdigest() if last else ""
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            event = wanted.model_copy(
                update={"number": last + 1, "time": now, "previous": previous}
            )
            if self._link(event):
                return event
            time.sleep(random.uniform(0, 0.01))
        raise TimeoutError(f"{self._folder} was busy for {_WITHIN:.0f} s; run the command again")

    def leftovers(self, before: float) -> list[Path]:
        """Events that were prepared before the time `before`, and that a crash kept out."""
        found = []
        for path in sorted(self._folder.glob(f"{_PREPARED}*")):
            with suppress(FileNotFoundError):  # Its maker has just removed it.
                if path.stat().st_mtime < before:
                    found.append(path)
        return found

    def _last(self) -> int:
        if not self._folder.is_dir():
            return 0
        stems = [path.stem for path in self._folder.glob("[0-9]*.json")]
        return max((int(stem) for stem in stems if stem.isdecimal()), default=0)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06}.json"

    def _content(self, number: int) -> bytes:
        try:
            return self._path(number).read_bytes()
        except FileNotFoundError:
            raise ValueError(
                f"{self._path(number)} is missing, so the history is damaged; restore it from a "
                "backup"
            ) from None

    def _link(self, event: Event) -> bool:
        """Whether `event` now is the one with its number."""
        handle, prepared = tempfile.mkstemp(dir=self._folder, prefix=_PREPARED)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(event.model_dump_json(indent=1).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(prepared, 0o444)
            if not _linked(prepared, self._path(event.number)):
                return False
        finally:
            os.unlink(prepared)
        synced(self._folder)
        return True


def _linked(prepared: str, path: Path) -> bool:
    try:
        os.link(prepared, path)
    except FileExistsError:
        # An answer that was lost on the network is asked for again: then it is ours that is there.
        return os.path.samefile(prepared, path)
    return True


def _parsed(content: bytes, path: Path) -> Event:
    try:
        return EVENT.validate_json(content)
    except ValidationError as fault:
        raise ValueError(
            f"{path} is damaged: it is no event of the registry; restore it from a backup"
        ) from fault
