"""A pretraining document as token ids. Its prompt is context; only the continuation is learned."""

from typing import TypedDict

from posttrain.data.chat import ChatFormat, Rendered


class Document(TypedDict):
    """A corpus row."""

    prompt: str
    continuation: str


def render_document(chat: ChatFormat, row: Document) -> Rendered:
    """Begin of text, prompt, continuation, end of text; targets are the last two."""
    begin = [] if chat.bos is None else [chat.bos]
    prompt = [*begin, *chat.encode(row["prompt"])]
    continuation = [*chat.encode(row["continuation"]), chat.eos]
    return Rendered(prompt + continuation, [0] * len(prompt) + [1] * len(continuation))
