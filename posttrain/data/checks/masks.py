"""What may be wrong with rendered ids and their mask, found from these alone.

So it holds for any renderer, and for conversations that were tokenised elsewhere.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from posttrain.data.checks.report import Finding

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat, Rendered

_AROUND = 16
"""Tokens on either side of a boundary that are looked at."""

_PARTIAL = "\N{REPLACEMENT CHARACTER}"


def bos_findings(chat: "ChatFormat", rendered: "Rendered") -> Iterator[Finding]:
    """There must be exactly one `<s>`, and it comes first; none, if the format has none."""
    if chat.bos is None:
        return
    at = [index for index, token in enumerate(rendered.ids) if token == chat.bos]
    if at[:2] == [0, 1]:
        yield Finding("tokens", "double_bos", "two <s> at the start")
    elif at != [0]:
        yield Finding("tokens", "bos", f"{len(at)} <s>, at {at[:5]}; one belongs at 0")


def mask_findings(chat: "ChatFormat", rendered: "Rendered") -> Iterator[Finding]:
    """Where targets start or end inside a token or a character, or there are none."""
    ids, mask = rendered.ids, rendered.mask
    if len(ids) != len(mask):
        yield Finding("tokens", "mask_length", f"{len(mask)} mask values for {len(ids)} tokens")
        return
    if not any(mask):
        yield Finding("tokens", "no_target")
    control = set(chat.control.values())
    for at in range(1, len(ids)):
        if mask[at] != mask[at - 1] and ids[at] not in control and ids[at - 1] not in control:
            yield from _cut(chat, ids, at)


def _cut(chat: "ChatFormat", ids: Sequence[int], at: int) -> Iterator[Finding]:
    """What the boundary before token `at` cuts through, if anything."""
    control = set(chat.control.values())
    before = list(takewhile(lambda i: i not in control, reversed(ids[max(0, at - _AROUND) : at])))
    after = list(takewhile(lambda i: i not in control, ids[at : at + _AROUND]))
    left = _decoded(chat, before[::-1])
    whole = _decoded(chat, before[::-1] + after)
    if left.endswith(_PARTIAL) and not whole.startswith(left):
        yield Finding("tokens", "split_character", f"token {at} goes on in a character")
        return
    encoded = chat.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    for start, end in encoded["offset_mapping"]:
        if start < len(left) < end:
            told = f"{whole[start:end]!r} is one token of the tokenizer, cut at token {at}"
            yield Finding("tokens", "split_token", told)


def _decoded(chat: "ChatFormat", ids: Sequence[int]) -> str:
    return str(chat.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
