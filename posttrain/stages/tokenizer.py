"""Tokenizer: a byte-level BPE trained on a recipe's own data, saved as a Hugging Face folder."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 2


class Config(StageConfig):
    """Which data it is trained on, how many tokens it may have, and the chat format of these."""

    data: tuple[Name, ...] = Field(min_length=1)
    vocabulary: int = Field(ge=300, le=262_144)
    format: Literal["apertus", "chatml"] = "apertus"

    def inputs(self) -> dict[str, str]:
        """The data sets it is trained on."""
        return {f"data.{name}": name for name in self.data}


def run(context: StageContext[Config]) -> Outcome:
    """Train on all training rows, in the order of `data`."""
    from posttrain.data import splits
    from posttrain.data.chat import ChatFormat
    from posttrain.data.tokenizer import row_texts, train_tokenizer

    rows = 0

    def texts() -> Iterator[str]:
        nonlocal rows
        for name in context.config.data:
            for row in splits.contents(context.inputs[f"data.{name}"].path / "train.jsonl"):
                rows += 1
                yield from row_texts(row)

    tokenizer = train_tokenizer(texts(), context.config.vocabulary, format=context.config.format)
    ChatFormat.from_tokenizer(tokenizer)
    tokenizer.save_pretrained(context.output)
    context.report(Progress(rows, rows, phase="rows"))
    return Outcome({"tokens": float(len(tokenizer))}, {"rows": rows})
