"""From weights and a config to a model, also where the head has fewer rows than the embedding."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from posttrain.conversion.weights import Weights

HEAD = "lm_head.weight"
EMBEDDINGS = ("model.embed_tokens.weight", "embed_tokens.weight")


class Effective:
    """The tensors a model computes with: a head that is tied is the embedding."""

    def __init__(self, weights: Weights, tied: bool) -> None:
        self._weights = weights
        self._names = {name: name for name in weights.names()}
        embedding = next((name for name in EMBEDDINGS if name in self._names), None)
        if tied and embedding:
            self._names[HEAD] = embedding

    def names(self) -> set[str]:
        """All names, the tied head's included."""
        return set(self._names)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._weights[self._names[name]]


def build(config: Path, weights: Weights) -> PreTrainedModel:
    """The model that `weights` make under the config in folder `config`, ready to be asked.

    Nothing is guessed: a tensor too many or too few is a ValueError.
    """
    settings = AutoConfig.from_pretrained(config, local_files_only=True)
    first = next(t for _, t in weights.items() if t.dtype.is_floating_point)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(settings, dtype=first.dtype)
    rows = getattr(settings, "output_vocab_size", None) or settings.vocab_size
    if rows != settings.vocab_size:
        width = settings.hidden_size
        model.lm_head = torch.nn.Linear(width, rows, bias=False, dtype=first.dtype)
    tensors = Effective(weights, bool(settings.tie_word_embeddings))
    state = {name: tensors[name] for name in tensors.names()}
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as fault:
        told = " ".join(str(fault).split())
        raise ValueError(f"the weights do not fit the config: {told[:300]}") from None
    return model.eval()
