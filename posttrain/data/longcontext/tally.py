"""What a set of rows amounts to: tokens, those the loss counts, and what was left out and why.

Of a long document the loss may count a few dozen tokens, so a budget in tokens says little of how
much is learned: the share that the loss counts is a figure of every set.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from posttrain.data.longcontext.conversation import Row

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat


class Tally:
    """Counts rows as they are made; a row longer than `limit` tokens is left out."""

    def __init__(self, chat: "ChatFormat", limit: int) -> None:
        self._chat = chat
        self._limit = limit
        self._counted: Counter[str] = Counter()

    def admit(self, row: Row) -> Row | None:
        """`row` with its `length` in tokens; None if it is too long."""
        rendered = self._chat.render(row)  # type: ignore[arg-type]
        if len(rendered.ids) > self._limit:
            self.leave_out("too_long")
            return None
        self._counted["tokens"] += len(rendered.ids)
        self._counted["targets"] += sum(rendered.mask)
        return row | {"length": len(rendered.ids)}

    def draw(self, level: str, tokens: int) -> None:
        """Count a source document of that many tokens."""
        self._counted[f"source_tokens.{level}"] += tokens

    def leave_out(self, reason: str) -> None:
        """Count what makes no row."""
        self._counted[f"left_out.{reason}"] += 1

    def figures(self) -> Mapping[str, float]:
        """`tokens`, `targets` and `target_share` of the rows, `source_tokens.LEVEL` behind them,
        and `left_out.REASON` for each reason there was."""
        tokens, targets = self._counted["tokens"], self._counted["targets"]
        counted = {name: float(count) for name, count in self._counted.items()}
        return counted | {"target_share": targets / tokens if tokens else 0.0}
