"""A checkpoint that training starts from, loaded and compared with its record."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from posttrain.data.chat import ChatFormat
from posttrain.training import checkpoint, xielu


@dataclass(frozen=True)
class Policy:
    """Model and tokenizer, the folder they came from, and the facts recorded of them."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    folder: Path
    facts: Mapping[str, Any]

    @classmethod
    def load(cls, artifact: Path, facts: Mapping[str, Any]) -> Self:
        """From a checkpoint artifact; ValueError names what differs from the facts."""
        model = checkpoint.load_model(artifact, facts)
        xielu.quicken(model)
        return cls(model, checkpoint.load_tokenizer(artifact, facts), artifact / "model", facts)

    @property
    def chat(self) -> ChatFormat:
        """The format over its tokenizer."""
        return ChatFormat.from_tokenizer(self.tokenizer)

    @property
    def context(self) -> int:
        """Tokens it can read."""
        length: int = self.model.config.max_position_embeddings
        return length
