"""Which tokens of conversations are targets, told by their ids alone (facts.md 3.3 and 4.2).

For what was tokenised elsewhere without a mask. Vectorised over many documents end to end: the
rules look at the few tokens that structure them. Always holds: a document's first token is no
target, its mask does not depend on its neighbours, and what a format renders has here the mask
that the format gave it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Marks(NamedTuple):
    """Ids that structure conversations; `others` start the turns of all but the assistant."""

    bos: int
    others: tuple[int, ...]
    user: int
    start: int
    end: int
    output_start: int
    output_end: int
    untaught: tuple[int, ...] = ()


def targets(ids: Ids, lengths: Sequence[int] | Ids, marks: Marks) -> NDArray[np.uint8]:
    """1 for each target among documents of `lengths` tokens, which lie end to end in `ids`.

    Without a user's or an assistant's turn all of a document is one. One that does not begin with
    `<s>` was cut: each chat in it is none, from its first turn to the end of its answer. Else what
    comes before the chat is one, and in the chat what the assistant says, its end marker included;
    never the outputs of tools.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    sizes = sizes[sizes > 0]
    assert sizes.sum() == len(ids), "the lengths must be those of the documents"
    if not len(ids):
        return np.zeros(0, np.uint8)
    firsts = np.concatenate([[0], np.cumsum(sizes[:-1])])
    events = _events(ids, firsts, marks)
    own, next_ones = _rules(events, ids[firsts] != marks.bos)
    # Between two events nothing changes: what one decides holds up to the next.
    gaps = np.diff(events.at, append=len(ids)) - 1
    values = np.stack([own, next_ones], 1).ravel().view(np.uint8)
    found: NDArray[np.uint8] = np.repeat(values, np.stack([np.ones_like(gaps), gaps], 1).ravel())
    return found


class _Events(NamedTuple):
    """The tokens that mean something, in order, and the first of each document.

    `at` is where, `kind` the field of `Marks` that it is (`_NOTHING` if none), `heads` the index
    of each document's first event among all.
    """

    at: Ids
    kind: NDArray[np.uint8]
    heads: Ids

    def are(self, *names: str) -> Flags:
        """Which events are of these kinds."""
        return np.isin(self.kind, [_KINDS.index(name) for name in names])

    def of_documents(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value of each document, given to its events."""
        return np.repeat(values, np.diff(self.heads, append=len(self.at)))


_KINDS = ("", *(name for name in Marks._fields if name != "bos"))
"""Kinds of events, by number; `others` comes before `user`, which is one of them."""


def _events(ids: Ids, firsts: Ids, marks: Marks) -> _Events:
    table = np.zeros(max(max(np.atleast_1d(field), default=0) for field in marks) + 2, np.uint8)
    for number, name in enumerate(_KINDS[1:], 1):
        table[np.atleast_1d(np.array(getattr(marks, name), dtype=np.int64))] = number
    kinds = table.take(ids, mode="clip")  # The last entry, of no kind, stands for all beyond.
    there = kinds > 0
    there[firsts] = True
    at = np.flatnonzero(there)
    return _Events(at, kinds[at], np.searchsorted(at, firsts))


def _rules(events: _Events, was_cut: Flags) -> tuple[Flags, Flags]:
    """Of each event whether it is a target, and whether those that follow it are."""
    user, start = events.are("user"), events.are("start")
    turn = events.are("others") | user | start
    spans = _Spans(np.arange(1, len(turn) + 1), events.of_documents(events.heads))
    chat = events.of_documents(np.logical_or.reduceat(start | user, events.heads))
    cut, end = events.of_documents(was_cut), events.are("end")
    outputs = spans.since(events.are("output_start"), events.are("output_end"))
    said = spans.since(start, end | (turn & ~start))
    fragments, begun = spans.since(turn, end), spans.since(turn, np.zeros_like(turn))
    own, follow = (
        (~chat | np.where(cut, ~fragment, spoken | ~chatting)) & ~output
        for fragment, spoken, chatting, output in zip(fragments, said, begun, outputs, strict=True)
    )
    own &= ~(chat & ~cut & turn) & ~events.are("untaught")
    own[events.heads] = False
    return own, follow


class _Spans(NamedTuple):
    """Events, counted from 1, and for each how many come before its document."""

    at: Ids
    before: Ids

    def since(self, opens: Flags, closes: Flags) -> tuple[Flags, Flags]:
        """Whether each event, and what follows it, lies between an opening and its closing.

        Both of these do; a document ends what is open.
        """
        opened = np.maximum.accumulate(np.where(opens, self.at, 0))
        closed = np.maximum.accumulate(np.where(closes, self.at, 0))
        own: Flags = opened > self.before
        follow = own & (opened > closed)
        own[1:] &= opened[1:] > closed[:-1]
        return own, follow
