"""Waiting for what another process does, always with a bound."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], within: float = 30.0) -> bool:
    """Whether `holds` becomes true within `within` seconds."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
