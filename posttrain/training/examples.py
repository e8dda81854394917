"""Training examples: rows of a data artifact as token ids with the mask of the loss's targets.

The first token of an example is never a target, so a mask can be shifted by one over a flat batch
without crossing from one example into the next.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from transformers import PreTrainedTokenizerBase

from posttrain.data.chat import BOS, EOS, ChatFormat, Conversation


@dataclass(frozen=True)
class Example:
    """Token ids, and for each 1 where it is a target of the loss and 0 elsewhere."""

    ids: list[int]
    mask: list[int]

    @property
    def targets(self) -> int:
        """How many tokens the loss counts."""
        return sum(self.mask)


def dialogues(path: Path, tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Example]:
    """Every dialogue row of `path`; ValueError names a row without targets or too long."""
    chat = ChatFormat.from_tokenizer(tokenizer)
    rendered = (chat.render(cast(Conversation, row)) for row in _rows(path))
    return _checked(path, (Example(each.ids, each.mask) for each in rendered), longest)


def documents(path: Path, tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Example]:
    """Every corpus row of `path`: BOS, prompt, continuation, EOS; targets from the third on."""
    control = ChatFormat.from_tokenizer(tokenizer).control
    made = (_document(row, tokenizer, control) for row in _rows(path))
    return _checked(path, made, longest)


def _document(
    row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, control: Mapping[str, int]
) -> Example:
    prompt = [control[BOS], *tokenizer.encode(row["prompt"], add_special_tokens=False)]
    answer = [*tokenizer.encode(row["continuation"], add_special_tokens=False), control[EOS]]
    return Example(prompt + answer, [0] * len(prompt) + [1] * len(answer))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _checked(path: Path, examples: Iterable[Example], longest: int) -> list[Example]:
    found = []
    for number, example in enumerate(examples, 1):
        where = f"row {number} of {path.name} in {path.parent}"
        if len(example.ids) > longest:
            raise ValueError(
                f"{where} has {len(example.ids)} tokens, the context {longest}; "
                "raise context.length or leave the row out"
            )
        if not any(example.mask) or example.mask[0]:
            raise ValueError(f"{where} has no target for the loss after its first token")
        found.append(example)
    if not found:
        raise ValueError(f"{path.name} in {path.parent} has no rows")
    return found
