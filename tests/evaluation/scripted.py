"""A model that says what a test wants, through the real sampler: its logits spell a script."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from posttrain.data.chat import ChatFormat
from tests.evaluation.tiny_model import model

Script = Callable[[str], Mapping[str, Any]]
"""From a prompt's text, control tokens included, to the assistant's message."""


class Scripted:
    """Has what `sample` asks of a model, and answers each prompt by its script."""

    training = False
    device = torch.device("cpu")

    def __init__(self, chat: ChatFormat, script: Script, context: int = 4096) -> None:
        self.config = model(len(chat.tokenizer)).config
        self.config.max_position_embeddings = context
        self._chat, self._script = chat, script

    def eval(self) -> None:
        """As of a module."""

    def train(self, mode: bool) -> None:
        """As of a module."""

    def __call__(self, input_ids: torch.Tensor, **given: Any) -> SimpleNamespace:
        """Logits of the next token of each live row; all is on the one the script has there."""
        cache = given["past_key_values"]
        if input_ids.shape[1] > 1:
            mask = given["attention_mask"]
            kept = [row if mask is None else row[mask[n] == 1] for n, row in enumerate(input_ids)]
            cache.replies = [self._reply(row.tolist()) for row in kept]
            cache.batch_select_indices = lambda index: cache.__dict__.update(
                replies=[cache.replies[at] for at in index.tolist()]
            )
        logits = torch.zeros(len(cache.replies), 1, len(self._chat.tokenizer))
        for row, reply in enumerate(cache.replies):
            logits[row, 0, reply.pop(0)] = 1.0
        return SimpleNamespace(logits=logits)

    def _reply(self, prompt: list[int]) -> list[int]:
        message = {"role": "assistant", **self._script(self._chat.tokenizer.decode(prompt))}
        asked = {"role": "user", "content": "so"}
        row = {"messages": [asked, message], "tools": [], "deliberation": False}
        rendered = self._chat.render(row)  # type: ignore[arg-type]
        return [i for i, said in zip(rendered.ids, rendered.mask, strict=True) if said]
