"""Prompts that a policy is asked in training: conversations that end with a user's message."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.data import splits
from posttrain.data.chat import ChatFormat
from posttrain.judging.opinions import prompt_text

Prompts = Sequence[Mapping[str, Any]]


def read_prompts(path: Path, chat: ChatFormat, longest: int) -> Prompts:
    """The prompts of a split; ValueError names a row that is none, or too long, or if all lack."""
    found = []
    for number, content in enumerate(splits.contents(path), 1):
        row: Any = {"tools": [], "deliberation": False, **content}
        try:
            prompt_text(row)
            length = len(chat.render(row, add_generation_prompt=True).ids)
        except (ValueError, KeyError, IndexError) as fault:
            raise ValueError(f"row {number} of {path.name} is no prompt: {fault}") from None
        if length > longest:
            raise ValueError(
                f"row {number} of {path.name} has {length} tokens; lengths.prompt is {longest}"
            )
        found.append(row)
    if not found:
        raise ValueError(f"{path.name} in {path.parent} has no prompts")
    return found
