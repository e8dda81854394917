"""Verdicts remembered by content: equal code asked an equal question gives an equal verdict.

Only `scored` and `abstained` ones, since a fault says nothing about the next time; and none that
blames the candidate for the loss of its workers.
"""

import hashlib
from collections import OrderedDict

from msgspec import json

from rewards.schema import Item, Verdict

Key = bytes


def content_key(digest: str, item: Item) -> Key:
    """What the verdict on `item` by the verifier of version `digest` depends on; not its id."""
    text = json.encode((digest, item.gold, item.parameters, item.response, item.answers))
    return hashlib.sha256(text).digest()


class Cache:
    """The `size` verdicts used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._verdicts: OrderedDict[Key, Verdict] = OrderedDict()

    def get(self, key: Key) -> Verdict | None:
        """The verdict, if it is known."""
        verdict = self._verdicts.get(key)
        if verdict is not None:
            self._verdicts.move_to_end(key)
        return verdict

    def put(self, key: Key, verdict: Verdict) -> None:
        """Remember `verdict` if it holds for ever."""
        if verdict.status == "failed" or verdict.reason == "unverifiable":
            return
        self._verdicts[key] = verdict
        if len(self._verdicts) > self._size:
            self._verdicts.popitem(last=False)
