"""A row of any shape as token ids with its loss mask: one rule for training, checks and counts.

A row is a conversation (`messages`), a document (`prompt` and `continuation`, or `text`, all of it
a target), or was tokenised elsewhere (`tokens` and `mask`, 1 where a token is a target).
"""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.data.chat import ChatFormat, Conversation, Rendered
from posttrain.data.documents import Document, render_document


def render(chat: ChatFormat, content: Mapping[str, Any]) -> Rendered:
    """Ids and mask of a row; ValueError names what cannot be rendered."""
    if "messages" in content:
        return chat.render(cast(Conversation, content))
    if "tokens" in content:
        return _tokenised(chat, content["tokens"], content.get("mask"))
    if "prompt" not in content:
        return render_document(chat, {"prompt": "", "continuation": content["text"]})
    return render_document(chat, cast(Document, content))


def _tokenised(chat: ChatFormat, ids: list[int], mask: list[int] | None) -> Rendered:
    size = len(chat.tokenizer)
    if ids and max(ids) >= size:
        at = ids.index(max(ids))
        raise ValueError(
            f"tokens[{at}]: {ids[at]} is none of the tokenizer's {size}; the row was made with "
            "another one"
        )
    return chat.taught(Rendered(list(ids), chat.mask(ids) if mask is None else list(mask)))
