"""Whether a tokenizer renders conversations alike wherever they are rendered.

Training renders piece by piece, by id. An offline engine applies the template and tokenises in one
call; a server may do it in two, with the tokenizer's own special tokens. All must give equal ids.
"""

import json
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import digests

CONVERSATIONS: list[Any] = json.loads(
    resources.files(__package__).joinpath("conversations.json").read_text("utf-8")
)
"""Frozen: their renderings are the prompts of every comparison."""


def conversations(chat: ChatFormat) -> list[Any]:
    """Those that a format can render: all, but those with tools if it has no tokens for calls."""
    return [row for row in CONVERSATIONS if _renders(chat, row)]


def _renders(chat: ChatFormat, row: Any) -> bool:
    """Whether it needs no tool calls, or the format has tokens for them."""
    return not row["tools"] or not {"<|tools_prefix|>", "<tool_call>"}.isdisjoint(chat.control)


_IDENTICAL = ("tokenizer.json", "chat_template.jinja")


def tokenizer_faults(source: Path, target: Path) -> Iterator[str]:
    """What differs between the two folders' tokenizers and templates."""
    before, after = (digests(load_tokenizer(folder)) for folder in (source, target))
    for name, value in before.items():
        if after[name] != value:
            what = name.removesuffix("_sha256")
            yield f"{what} differs: digest {after[name][:12]}, was {value[:12]}"
    for name in _IDENTICAL:
        contents = [
            path.read_bytes() if (path := folder / name).is_file() else None
            for folder in (source, target)
        ]
        if contents[0] != contents[1]:
            yield f"{name} is not the file it was"


def rendering_faults(target: Path) -> Iterator[str]:
    """Where the ways to render a conversation disagree."""
    tokenizer = load_tokenizer(target)
    chat = ChatFormat.from_tokenizer(tokenizer)
    for number, row in enumerate(conversations(chat), 1):
        trained = chat.render(row).ids
        for path, ids in _elsewhere(tokenizer, row).items():
            if ids != trained:
                yield f"conversation {number}: {path} renders {difference(chat, trained, ids)}"


def _elsewhere(tokenizer: PreTrainedTokenizerBase, row: Any) -> dict[str, list[int]]:
    settings: dict[str, Any] = {
        "tools": row["tools"] or None,
        "enable_thinking": row["deliberation"],
    }
    text = tokenizer.apply_chat_template(row["messages"], tokenize=False, **settings)
    ids = tokenizer.apply_chat_template(
        row["messages"], tokenize=True, return_dict=False, **settings
    )
    return {"the offline engine": list(ids), "the server": list(tokenizer.encode(text))}


def difference(chat: ChatFormat, trained: Sequence[int], ids: Sequence[int]) -> str:
    """How ids differ from those that training renders."""
    if chat.bos is not None and list(ids).count(chat.bos) != list(trained).count(chat.bos):
        count = list(ids).count(chat.bos)
        return f"{count} times the token that begins a text, training {trained.count(chat.bos)}"
    pairs = zip(trained, ids, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(trained), len(ids)))
    return f"other tokens than training, from {at} on"


def end_faults(target: Path) -> Iterator[str]:
    """What ends a generation must be what ends a turn."""
    tokenizer = load_tokenizer(target)
    path = target / "generation_config.json"
    stated = json.loads(path.read_bytes()).get("eos_token_id") if path.is_file() else None
    ends = stated if isinstance(stated, list) else [stated]
    for stop in ChatFormat.from_tokenizer(tokenizer).stop_ids:
        if stop not in ends:
            name = tokenizer.convert_ids_to_tokens(stop)
            yield f"generation_config.json does not end at {name} ({stop})"
    if tokenizer.eos_token_id is None:
        yield "the tokenizer has no end of sequence"


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, local_files_only=True
    )
    return tokenizer
