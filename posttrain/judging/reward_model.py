"""A reward model's scores: a Hugging Face sequence classifier with one output, in float32.

Prompt and completion are rendered by the model's own chat template, as it was trained to read them;
the deliberation is no part of what is scored. A score is a number on the model's own scale. Always
holds: what cannot be rendered, is too long or gets no finite number has no score and says why; the
scores do not depend on what else is in a batch, but for rounding.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from jinja2 import TemplateError
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from posttrain import digest
from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion


class RewardModel:
    """As `Judge`; a batch is of at most `batch` completions."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, batch: int) -> None:
        self._model, self._tokenizer, self._batch = model.eval(), tokenizer, batch
        self._context = model.config.max_position_embeddings

    @classmethod
    def load(cls, folder: Path, batch: int, device: str) -> Self:
        """From a Hugging Face folder; ValueError if it is no whole reward model with a template."""
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if not isinstance(tokenizer.chat_template, str):
            raise ValueError(f"{folder}: its tokenizer has no chat template to render prompts by")
        model, told = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
        if model.config.num_labels != 1:
            raise ValueError(f"{folder} has {model.config.num_labels} outputs; a reward is one")
        if lacking := sorted(told["missing_keys"]):
            raise ValueError(f"{folder} has no weights for {lacking[0]}: it is no reward model")
        if len(tokenizer) > (size := model.config.vocab_size):
            raise ValueError(f"{folder}: {len(tokenizer)} ids of a vocabulary of {size}")
        return cls(model.to(device), tokenizer, batch)

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        """As `Judge`; a completion without a score is a fault."""
        found: list[Opinion] = [Opinion(None)] * len(rows)
        fitting: list[tuple[int, list[int]]] = []
        for place, (row, turn) in enumerate(zip(rows, turns, strict=True)):
            rendered = self._rendered(row, turn)
            if isinstance(rendered, str):
                found[place] = Opinion(None, fault=rendered)
            else:
                fitting.append((place, rendered))
        fitting.sort(key=lambda each: len(each[1]))
        for start in range(0, len(fitting), self._batch):
            places, batch = zip(*fitting[start : start + self._batch], strict=True)
            for place, score in zip(places, self._scores(batch), strict=True):
                found[place] = _opinion(score)
        return found

    def identity(self) -> dict[str, str]:
        """The digest of the template, as it goes into an archive."""
        return {"template_sha256": digest.of_value(self._tokenizer.chat_template)}

    def _rendered(self, row: Mapping[str, Any], turn: AssistantTurn) -> list[int] | str:
        """Ids of prompt and completion, or why there are none."""
        said = {"role": "assistant", "content": turn.content or ""}
        try:
            found = self._tokenizer.apply_chat_template(
                [*row["messages"], said], tokenize=True, return_dict=False
            )
        except (TemplateError, TypeError, ValueError) as fault:
            return f"failed (unrenderable): {fault}"
        ids: list[int] = list(found)
        if len(ids) > self._context:
            return f"failed (too_long): {len(ids)} tokens, the model reads {self._context}"
        return ids

    @torch.no_grad()
    def _scores(self, batch: Sequence[list[int]]) -> list[float]:
        """The output for each of `batch`, which is padded on the right.

        The model reads a completion off its last token that is no padding, which it knows by an
        id: so that id is one which none of the batch has.
        """
        used = set().union(*batch)
        filler = next(index for index in range(len(used) + 1) if index not in used)
        self._model.config.pad_token_id = filler
        longest = max(map(len, batch))
        ids = torch.tensor([[*each, *[filler] * (longest - len(each))] for each in batch])
        ids = ids.to(self._model.device)
        mask = (ids != filler).long()
        logits = self._model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        found: list[float] = logits[:, 0].float().tolist()
        return found


def _opinion(score: float) -> Opinion:
    return Opinion(score) if math.isfinite(score) else Opinion(None, fault=f"failed (nan): {score}")
