"""The teacher: the model that reads what the student did not, and how it follows the student.

It is held whole by each process, scores and is never trained.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from posttrain.data.chat import Rendered
from posttrain.objectives import teacher as regularized
from posttrain.objectives.config import TeacherConfig
from posttrain.training.attention import use_documents
from posttrain.training.pretraining import predictions


class Teacher:
    """Starts as `model`; a trust region also needs a copy of the student, which it takes along."""

    def __init__(
        self, model: PreTrainedModel, config: TeacherConfig, student: PreTrainedModel | None
    ) -> None:
        assert (student is not None) == (config.regularization == "trust_region")
        self._model, self._student, self._config = model, student, config
        for each in filter(None, (model, student)):
            use_documents(each.eval())
        if config.regularization == "ema":
            model.float()

    @torch.no_grad()
    def logits(self, row: Sequence[Rendered]) -> torch.Tensor:
        """Logits (targets, vocabulary) in front of the targets of `row`, documents end to end."""
        found = predictions(self._model, row)[0]
        if self._student is None:
            return found
        assert self._config.rate is not None
        ahead = predictions(self._student, row)[0]
        return regularized.trust_region(found, ahead, self._config.rate)

    def look(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take note of the student's weights before it is updated: a trust region is around them.

        Called before each update; `follow` after it.
        """
        if self._student is not None:
            self._student.load_state_dict(weights)

    @torch.no_grad()
    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take in the student's weights after an update, as a moving average does."""
        if self._config.regularization != "ema":
            return
        assert self._config.rate is not None
        for name, parameter in self._model.named_parameters():
            parameter.copy_(regularized.ema(parameter, weights[name], self._config.rate))

    def state_dict(self) -> Mapping[str, Any]:
        """What a moving average has become; a teacher of another kind has no state of its own."""
        return self._model.state_dict() if self._config.regularization == "ema" else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if state:
            self._model.load_state_dict(state)
