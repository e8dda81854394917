"""What a check is given: the data, and what some compare them with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.data.checks.rows import Dataset, Row

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat


@dataclass(frozen=True)
class Inputs:
    """The datasets to check; benchmarks and the chat format only where the check needs them."""

    data: Sequence[Dataset]
    seed: int = 0
    benchmarks: Sequence[Dataset] = ()
    chat: "ChatFormat | None" = None

    @property
    def names(self) -> list[str]:
        """The names of the datasets."""
        return [dataset.name for dataset in self.data]

    def rows(self) -> Iterator[Row]:
        """All rows, dataset after dataset; ValueError at the first that cannot be read."""
        for dataset in self.data:
            yield from dataset.rows()

    def need_chat(self) -> "ChatFormat":
        """The chat format; ValueError without one."""
        if self.chat is None:
            raise ValueError("this check reads tokens: name a tokenizer")
        return self.chat
