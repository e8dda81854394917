"""A pretraining document as token ids. Its prompt is context; only the continuation is learned."""

from typing import TypedDict

from posttrain.data.chat import BOS, EOS, ChatFormat, Rendered


class Document(TypedDict):
    """A corpus row."""

    prompt: str
    continuation: str


def render_document(chat: ChatFormat, row: Document) -> Rendered:
    """`<s>`, prompt, continuation, `</s>`; targets are the continuation and the end."""
    prompt = [chat.control[BOS], *chat.encode(row["prompt"])]
    continuation = [*chat.encode(row["continuation"]), chat.control[EOS]]
    return Rendered(prompt + continuation, [0] * len(prompt) + [1] * len(continuation))
