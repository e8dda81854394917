"""Chat formats: a conversation as token ids with its loss mask, and a response parsed by id.

One library for data, rewards, reinforcement learning and serving. Which format a tokenizer has,
its control tokens and its template tell; what they do not tell is an error, never a guess.

Always holds: only what the assistant says is a target, its end marker included and tool outputs
excluded, and a document that comes before the chat; text of a row can never become a control token.
Source: facts.md section 3.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from transformers import PreTrainedTokenizerBase

from posttrain.data.conversation import Conversation as Conversation
from posttrain.data.turn import AssistantTurn
from posttrain.data.turn import answers as answers


@dataclass(frozen=True)
class Rendered:
    """Token ids and, for each, 1 where it is a target of the loss and 0 elsewhere."""

    ids: list[int]
    mask: list[int]


@dataclass(frozen=True)
class ChatFormat(ABC):
    """A format over one tokenizer; `control` gives each control token's id by name.

    `untaught` are ids that the model reads and never learns to write.
    """

    tokenizer: PreTrainedTokenizerBase
    control: Mapping[str, int]
    untaught: frozenset[int] = frozenset()

    @staticmethod
    def from_tokenizer(tokenizer: PreTrainedTokenizerBase) -> "ChatFormat":
        """The format that `tokenizer` is made for; ValueError names the tokens it lacks.

        Apertus if it has one of that format's turn markers, else that of its chat template, else
        ChatML if it has those markers.
        """
        from posttrain.data.apertus import ApertusFormat, is_apertus
        from posttrain.data.templates import TemplateFormat, has_template

        if not is_apertus(tokenizer) and has_template(tokenizer):
            return TemplateFormat.resolved(tokenizer)
        return ApertusFormat.resolved(tokenizer)

    @property
    @abstractmethod
    def bos(self) -> int | None:
        """The id that every row begins with, if one does."""

    @property
    @abstractmethod
    def eos(self) -> int:
        """The id that ends a document."""

    @property
    @abstractmethod
    def stop_ids(self) -> list[int]:
        """Ids that end a generated response: the assistant's end marker, then end of text."""

    @abstractmethod
    def render(
        self,
        row: Conversation,
        *,
        add_generation_prompt: bool = False,
        force_thinking: bool = False,
        continue_assistant: bool = False,
    ) -> Rendered:
        """Ids and mask of `row`; `add_generation_prompt` opens an assistant turn at the end.

        With `force_thinking` the opened turn already thinks; the prompt is then no longer what
        the model chose, so it is never a target. With `continue_assistant` the last turn stays
        open. ValueError names the message at fault.
        """

    def prompt(self, row: Conversation) -> Rendered:
        """What the model is given so that it answers `row`, as training shows it."""
        return self.render(row, add_generation_prompt=True)

    @abstractmethod
    def parse(self, ids: Sequence[int], *, force_thinking: bool = False) -> AssistantTurn:
        """The turn in a response's ids; `force_thinking` as given when its prompt was rendered.

        A response that breaks the format yields a turn whose `error` says where.
        """

    @property
    def call_ends(self) -> list[int]:
        """Ids after which a turn stays open for its calls' outputs; none if calls end a turn."""
        return []

    @abstractmethod
    def outputs(self, texts: Sequence[str], *, deliberation: bool) -> list[int]:
        """Ids that give the model the outputs of its calls, and after which it speaks again.

        They follow one of `call_ends`, or else the end of the turn that called. ValueError if a
        text spells a control token.
        """

    def mask(self, ids: Sequence[int]) -> list[int]:
        """Which of a conversation's ids are targets, where the ids alone tell it.

        ValueError where they do not: then a row must say so itself.
        """
        raise ValueError("its format does not tell by ids what the loss counts; give a `mask`")

    def without_targets(self, names: Sequence[str]) -> Self:
        """The same format, in which these tokens are no targets; ValueError names one it lacks."""
        vocabulary = self.tokenizer.get_vocab()
        if missing := [name for name in names if name not in vocabulary]:
            raise ValueError(f"tokenizer lacks the tokens {', '.join(missing)}, not to be learned")
        return replace(self, untaught=self.untaught | {vocabulary[name] for name in names})

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; ValueError if it spells a control token."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        if not self.reserved.isdisjoint(ids):
            names = sorted({self.reserved_names[index] for index in ids if index in self.reserved})
            raise ValueError(f"text spells control tokens {', '.join(names)}: {text[:80]!r}")
        return ids

    @cached_property
    def reserved(self) -> frozenset[int]:
        """Ids that no text may have: control tokens and the tokenizer's special ones."""
        return frozenset(self.reserved_names)

    @cached_property
    def reserved_names(self) -> Mapping[int, str]:
        """Each reserved id's name; a text that no token fits may well be unknown."""
        special = zip(
            self.tokenizer.all_special_ids, self.tokenizer.all_special_tokens, strict=True
        )
        names = dict(special) | {index: name for name, index in self.control.items()}
        unknown: Any = self.tokenizer.unk_token_id
        return {index: name for index, name in names.items() if index != unknown}

    def spoken(self, ids: Sequence[int]) -> str:
        """A response's text for a verifier: control tokens included, without what ends it."""
        ends = bool(ids) and ids[-1] in self.stop_ids
        return self._decode(ids[:-1] if ends else ids)

    def _decode(self, ids: Sequence[int]) -> str:
        text = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def taught(self, rendered: Rendered) -> Rendered:
        """The same without the targets that are not taught."""
        if self.untaught.isdisjoint(rendered.ids):
            return rendered
        untaught = np.isin(rendered.ids, list(self.untaught))
        return Rendered(rendered.ids, np.where(untaught, 0, rendered.mask).tolist())
