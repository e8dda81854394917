"""What is held out: decided by the text of a prompt alone, so that it never moves.

Always holds: the same prompt is on the same side whatever the seed, the data set or the order.
"""

import hashlib

_SCALE = 2**64


def place(prompt: str) -> float:
    """A number in [0, 1) that the text decides, evenly spread."""
    return int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") / _SCALE


def held_out(prompt: str, share: float) -> bool:
    """Whether a prompt is among the share of all that is held out."""
    return place(prompt) < share
