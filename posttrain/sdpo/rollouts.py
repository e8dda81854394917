"""Where responses come from. Always holds: the same weights, prompts and seed give the same."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from transformers import PreTrainedModel

from posttrain.data.chat import Rendered
from posttrain.evaluation.generation import sample


class Rollouts(Protocol):
    """Samples from a policy; on GPUs this is a vLLM server that takes the weights over."""

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Sample from these weights from now on."""

    def respond(self, prompts: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """A response to each prompt, in order, its stop id included."""

    def log_probs(self, document: Rendered) -> list[float]:
        """Of each target of `document`, at the temperature at which it was sampled."""


class InProcess:
    """Rollouts from a model in this process: for CPUs, and models that are small."""

    def __init__(
        self, model: PreTrainedModel, stop_ids: Sequence[int], longest: int, temperature: float
    ) -> None:
        self._model, self._stop_ids = model.eval(), stop_ids
        self._longest, self._temperature = longest, temperature

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """As `Rollouts`."""
        self._model.load_state_dict(weights)

    def respond(self, prompts: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """As `Rollouts`; cut at the longest length."""
        return sample(
            self._model, prompts, max_new_tokens=self._longest, temperature=self._temperature,
            stop_ids=self._stop_ids, seed=seed,
        )  # fmt: skip

    @torch.no_grad()
    def log_probs(self, document: Rendered) -> list[float]:
        """As `Rollouts`."""
        ids, mask = torch.tensor(document.ids), torch.tensor(document.mask[1:]).bool()
        logits = self._model(input_ids=ids[None], use_cache=False).logits[0, :-1][mask].float()
        found = (logits / self._temperature).log_softmax(-1)
        log_probs: list[float] = found.gather(-1, ids[1:][mask][:, None])[:, 0].tolist()
        return log_probs
