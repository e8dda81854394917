"""The processes of a run on this machine: which there are, what they are, and how they fare."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from posttrain.warden import marked

_FATES = {"T": "stopped", "t": "stopped", "D": "waiting for a disk", "Z": "dead, not reaped"}


class Process(NamedTuple):
    """A process: its id, its title (a command line, or what Ray calls it) and its state."""

    pid: int
    title: str
    state: str

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger holds it."""
        return self.state == "stopped"


def process(pid: int) -> Process | None:
    """The process with this id, if there is one."""
    try:
        title = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(pid, title.strip(), _FATES.get(fields[0], "running"))


def of_run(token: str) -> Iterator[Process]:
    """All processes that carry the token of a run."""
    for pid in sorted(marked(token)):
        if found := process(pid):
            yield found
