"""Where responses come from. Always holds: of one sampler, the same weights, prompts and seed give
the same responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers import PreTrainedModel

from posttrain.data.chat import Rendered
from posttrain.evaluation.generation import sample


@dataclass(frozen=True)
class Response:
    """Ids, the stop id included, and each one's log-probability at the sampling temperature.

    These are None where nobody asked for them and they are not at hand.
    """

    ids: list[int]
    log_probs: list[float] | None = None


class Rollouts(Protocol):
    """Samples from a policy."""

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Sample from these weights from now on."""

    def respond(
        self, prompts: Sequence[Sequence[int]], seed: int, *, with_log_probs: bool
    ) -> list[Response]:
        """A response to each prompt, in order, cut at the longest length."""


class Local:
    """Rollouts from a model in this process."""

    def __init__(
        self, model: PreTrainedModel, stop_ids: Sequence[int], longest: int, temperature: float
    ) -> None:
        self._model, self._stop_ids = model.eval(), stop_ids
        self._longest, self._temperature = longest, temperature

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """As `Rollouts`."""
        self._model.load_state_dict(weights)

    def respond(
        self, prompts: Sequence[Sequence[int]], seed: int, *, with_log_probs: bool
    ) -> list[Response]:
        """As `Rollouts`."""
        responses = sample(
            self._model, prompts, max_new_tokens=self._longest, temperature=self._temperature,
            stop_ids=self._stop_ids, seed=seed,
        )  # fmt: skip
        if not with_log_probs:
            return [Response(each) for each in responses]
        return [
            Response(response, self._log_probs([*prompt, *response], len(response)))
            for prompt, response in zip(prompts, responses, strict=True)
        ]

    @torch.no_grad()
    def _log_probs(self, ids: Sequence[int], last: int) -> list[float]:
        """Of the `last` ids; one document a pass, whose logits alone are in memory."""
        given = torch.tensor([ids], device=self._model.device)
        logits = self._model(input_ids=given, use_cache=False, logits_to_keep=last + 1).logits
        found = (logits[0, :-1].float() / self._temperature).log_softmax(-1)
        log_probs: list[float] = found.gather(-1, given[0, -last:, None])[:, 0].tolist()
        return log_probs


def document(prompt: Sequence[int], response: Sequence[int]) -> Rendered:
    """Prompt and response end to end; the response's tokens are the targets."""
    return Rendered([*prompt, *response], [0] * len(prompt) + [1] * len(response))
