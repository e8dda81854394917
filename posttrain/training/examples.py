"""Training examples: rows of a data artifact as token ids with the mask of the loss's targets.

The first token of an example is never a target, so a mask can be shifted by one over a flat batch
without crossing from one example into the next.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from posttrain.data import splits
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.rendering import render


def dialogues(
    path: Path, tokenizer: PreTrainedTokenizerBase, longest: int | None,
    untaught: Sequence[str] = (),
) -> list[Rendered]:  # fmt: skip
    """Every dialogue row of a split; tokens named `untaught` are no targets.

    ValueError names a row without targets, or longer than `longest`, or a token that is unknown.
    """
    chat = ChatFormat.from_tokenizer(tokenizer).without_targets(untaught)
    return _checked(path, (render(chat, row) for row in splits.contents(path)), longest)


def documents(path: Path, tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Rendered]:
    """Every corpus row of a split; ValueError names a row that is too long."""
    chat = ChatFormat.from_tokenizer(tokenizer)
    return _checked(path, (render(chat, row) for row in splits.contents(path)), longest)


def targets(example: Rendered) -> int:
    """How many tokens of `example` the loss counts."""
    return sum(example.mask)


def _checked(path: Path, examples: Iterable[Rendered], longest: int | None) -> list[Rendered]:
    found = []
    for number, example in enumerate(examples, 1):
        where = f"row {number} of {path.name} in {path.parent}"
        if longest is not None and len(example.ids) > longest:
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
