"""The dialogue rows of long-context tasks: asked and answered in words, without deliberation."""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

SYSTEM = "You are a helpful assistant and answer concisely."


def conversation(turns: Iterable[tuple[str, str]], *, text: str | None = None) -> Row:
    """A row of questions and answers; `text` comes before the chat and is learned as well."""
    messages = [{"role": "system", "content": SYSTEM}]
    for question, answer in turns:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    row = {"messages": messages, "tools": [], "deliberation": False}
    return row if text is None else {"text": text, **row}
