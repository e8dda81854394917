"""The chat format of Apertus 1.5 (facts.md section 3).

Always holds: exactly one `<s>`, first; the system and the developer block are always there (empty
text when the row has none); every control token has the id that its tokenizer build pins.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import NamedTuple, Self

import numpy as np
from transformers import PreTrainedTokenizerBase

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.conversation import LEADING, Block, Conversation, Turn, turns
from posttrain.data.declarations import declarations
from posttrain.data.targets import Marks, targets
from posttrain.data.turn import ANSWER_TOOL, AssistantTurn, Span, assemble

BOS, EOS = "<s>", "</s>"
MARKERS = (
    "<|system_start|>", "<|system_end|>", "<|developer_start|>", "<|developer_end|>",
    "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
    "<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>",
    "<|tool_output_start|>", "<|tool_output_end|>",
)  # fmt: skip
THINKING = (("<|inner_prefix|>", "<think>"), ("<|inner_suffix|>", "</think>"))
"""Both names that builds give each token around thinking; what the model emits has the lower id."""

MEDIA: Mapping[str, str] = {"image": "<|image|>", "audio": "<|audio|>"}
TASKS = ("<|stt_transcribe|>", "<|stt_continue|>", "<|tts_continue|>", "<|stt_translate|>")
"""Tokens that ask for a task of speech; like those of media, a tokenizer may lack them."""

TEMPLATE = resources.files(__package__).joinpath("chat_template.jinja").read_text("utf-8")
"""The same rendering for programs that use `apply_chat_template(enable_thinking=...)`."""

PINS: Mapping[int, Mapping[str, int]] = {
    266_440: {
        BOS: 1, EOS: 2,
        **{name: 61 + index for index, name in enumerate(MARKERS[:8])},
        "<|inner_prefix|>": 32, "<|inner_suffix|>": 33,
        "<|tools_prefix|>": 71, "<|tools_suffix|>": 72,
        "<|tool_output_start|>": 73, "<|tool_output_end|>": 74,
        "<|image|>": 131_079, "<|audio|>": 131_085,
        "<|stt_transcribe|>": 131_082, "<|stt_continue|>": 131_083,
        "<|tts_continue|>": 131_084, "<|stt_translate|>": 131_086,
    },
}  # fmt: skip
"""Length of a known tokenizer build -> ids of its control tokens (facts.md 3.1)."""


class Piece(NamedTuple):
    """A control token or a text between two of them; `target` tells if the loss counts it."""

    text: str
    control: bool
    target: bool


def is_apertus(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer has any turn marker of this format: then it must have all."""
    return not tokenizer.get_vocab().keys().isdisjoint(MARKERS[:8])


@dataclass(frozen=True)
class ApertusFormat(ChatFormat):
    """The format over one tokenizer, its thinking tokens under the names of `MARKERS`."""

    @classmethod
    def resolved(cls, tokenizer: PreTrainedTokenizerBase) -> Self:
        """Resolve every control token by name; ValueError names what is missing or misplaced."""
        vocabulary = tokenizer.get_vocab()
        found = {
            name: vocabulary[name]
            for name in (BOS, EOS, *MARKERS, *MEDIA.values(), *TASKS)
            if name in vocabulary
        }
        for names in THINKING:
            if ids := [vocabulary[name] for name in names if name in vocabulary]:
                found[names[0]] = min(ids)
        if missing := [name for name in (BOS, EOS, *MARKERS) if name not in found]:
            raise ValueError(f"tokenizer lacks the chat control tokens {', '.join(missing)}")
        _pinned(found, len(tokenizer))
        untaught = {found[name] for name in (*MEDIA.values(), *TASKS) if name in found}
        return cls(tokenizer, found, frozenset(untaught))

    @property
    def bos(self) -> int:
        """`<s>`."""
        return self.control[BOS]

    @property
    def eos(self) -> int:
        """`</s>`."""
        return self.control[EOS]

    @property
    def stop_ids(self) -> list[int]:
        """The assistant's end marker, then end of text."""
        return [self.control["<|assistant_end|>"], self.control[EOS]]

    def render(
        self,
        row: Conversation,
        *,
        add_generation_prompt: bool = False,
        force_thinking: bool = False,
        continue_assistant: bool = False,
    ) -> Rendered:
        """As of every format; a turn that waits for the outputs of its calls stays open too."""
        parts = list(pieces(row, continue_assistant=continue_assistant))
        if add_generation_prompt:
            parts.append(Piece("<|assistant_start|>", control=True, target=False))
            if force_thinking:
                parts.append(Piece("<|inner_prefix|>", control=True, target=False))
        ids: list[int] = []
        mask: list[int] = []
        for part in parts:
            chunk = [self._id(part.text)] if part.control else self.encode(part.text)
            ids += chunk
            mask += [int(part.target)] * len(chunk)
        return self.taught(Rendered(ids, mask))

    def mask(self, ids: Sequence[int]) -> list[int]:
        """By the rules of `targets`."""
        return list(targets(np.asarray(ids, dtype=np.int64), [len(ids)], self.marks).tolist())

    @cached_property
    def marks(self) -> Marks:
        """The ids that `targets` goes by."""
        of = self.control
        return Marks(
            bos=of[BOS], user=of["<|user_start|>"], start=of["<|assistant_start|>"],
            others=(of["<|system_start|>"], of["<|developer_start|>"], of["<|user_start|>"]),
            end=of["<|assistant_end|>"], output_start=of["<|tool_output_start|>"],
            output_end=of["<|tool_output_end|>"], untaught=tuple(self.untaught),
        )  # fmt: skip

    def prompt(self, row: Conversation) -> Rendered:
        """With a new turn opened, or its own last one, which tools' outputs let go on."""
        last = turns(row["messages"])[-1:]
        if last and last[0].role == "assistant":
            return self.render(row, continue_assistant=True)
        return self.render(row, add_generation_prompt=True)

    @property
    def call_ends(self) -> list[int]:
        """The end of the calls."""
        return [self.control["<|tools_suffix|>"]]

    def outputs(self, texts: Sequence[str], *, deliberation: bool) -> list[int]:
        """As `render` writes them, within the turn."""
        block = Block("tool_outputs", outputs=tuple(texts))
        ids = [
            [self._id(piece.text)] if piece.control else self.encode(piece.text)
            for piece in _block(block)
        ]
        return [token for chunk in ids for token in chunk]

    def _id(self, name: str) -> int:
        if name not in self.control:
            raise ValueError(f"tokenizer lacks {name}, which the row needs")
        return self.control[name]

    def parse(self, ids: Sequence[int], *, force_thinking: bool = False) -> AssistantTurn:
        """As of every format."""
        names = {index: name for name, index in self.control.items()}
        spans: list[Span] = [Span("<|inner_prefix|>", "")] if force_thinking else []
        start = 0
        for index, token in enumerate(ids):
            if token in names:
                spans += [Span(None, self._decode(ids[start:index])), Span(names[token], "")]
                start = index + 1
        spans.append(Span(None, self._decode(ids[start:])))
        return assemble([span for span in spans if span.control or span.text])


def _pinned(found: Mapping[str, int], size: int) -> None:
    """ValueError if the tokenizer is as long as a known build but places tokens elsewhere."""
    wrong = [
        f"{name} is {found.get(name)}, not {pin}"
        for name, pin in PINS.get(size, {}).items()
        if found.get(name) != pin
    ]
    if wrong:
        told = "; ".join(wrong)
        raise ValueError(f"a tokenizer of {size:,} tokens is a known build, but {told}")


def pieces(row: Conversation, *, continue_assistant: bool = False) -> Iterator[Piece]:
    """The control tokens and texts of `row` in order; ValueError for a message out of place.

    Texts of a turn that follow one another are one: where a text was cut decides no token.
    """
    every = turns(row["messages"])
    said = {turn.role: turn.parts[0].text for turn in every if turn.role in LEADING}
    spoken = [turn for turn in every if turn.role not in LEADING]
    yield Piece(BOS, control=True, target=False)
    yield from _text(row.get("text") or "", target=True)
    yield from _spanned("system", said.get("system", ""))
    yield from _spanned("developer", _capabilities(row, said.get("developer", "")))
    for number, turn in enumerate(spoken, 1):
        if turn.role == "user":
            yield from _merged(_user(turn))
        else:
            stays_open = number == len(spoken) and (continue_assistant or _waits(turn))
            yield from _merged(_assistant(turn, stays_open))


def _text(text: str, *, target: bool) -> Iterator[Piece]:
    if text:
        yield Piece(text, control=False, target=target)


def _spanned(role: str, text: str) -> Iterator[Piece]:
    yield Piece(f"<|{role}_start|>", control=True, target=False)
    yield from _text(text, target=False)
    yield Piece(f"<|{role}_end|>", control=True, target=False)


def _capabilities(row: Conversation, instructions: str) -> str:
    deliberation = "enabled" if row["deliberation"] else "disabled"
    tools = declarations(row["tools"])
    listed = f"Tool Capabilities:\n{tools}" if tools else "Tool Capabilities: disabled"
    told = f"Deliberation: {deliberation}\n{listed}"
    return f"{told}\n{instructions}" if instructions else told


def _user(turn: Turn) -> Iterator[Piece]:
    yield Piece("<|user_start|>", control=True, target=False)
    for part in turn.parts:
        if part.kind == "text":
            yield from _text(part.text, target=False)
        else:
            yield Piece(MEDIA[part.kind], control=True, target=False)
    yield Piece("<|user_end|>", control=True, target=False)


def _assistant(turn: Turn, stays_open: bool) -> Iterator[Piece]:
    """Tools are called and answer within thinking; a response ends it, and so does the answer."""
    yield Piece("<|assistant_start|>", control=True, target=False)
    thinking = False
    for block in turn.blocks:
        if block.kind == "thoughts" and not thinking:
            yield Piece("<|inner_prefix|>", control=True, target=True)
            thinking = True
        elif thinking and (block.kind == "response" or _answers(block)):
            yield Piece("<|inner_suffix|>", control=True, target=True)
            thinking = False
        yield from _block(block)
    if stays_open:
        return
    if thinking:
        yield Piece("<|inner_suffix|>", control=True, target=True)
    yield Piece("<|assistant_end|>", control=True, target=True)


def _answers(block: Block) -> bool:
    """Whether it is a lone call of the answer tool, whose output nothing awaits (facts.md 2.6)."""
    return len(block.calls) == 1 and block.calls[0].name == ANSWER_TOOL


def _waits(turn: Turn) -> bool:
    """Whether the turn waits for the outputs of its calls."""
    last = turn.blocks[-1] if turn.blocks else None
    return last is not None and last.kind == "tool_calls" and not _answers(last)


def _block(block: Block) -> Iterator[Piece]:
    if block.kind == "tool_calls":
        called = ", ".join(f'{{"{call.name}": {call.arguments}}}' for call in block.calls)
        yield Piece("<|tools_prefix|>", control=True, target=True)
        yield Piece(f"[{called}]", control=False, target=True)
        yield Piece("<|tools_suffix|>", control=True, target=True)
    elif block.kind == "tool_outputs":
        yield Piece("<|tool_output_start|>", control=True, target=False)
        yield from _text(", ".join(block.outputs), target=False)
        yield Piece("<|tool_output_end|>", control=True, target=False)
    else:
        yield from _text(block.text, target=True)


def _merged(turn: Iterator[Piece]) -> Iterator[Piece]:
    text = ""
    for piece in turn:
        if not piece.control:
            text, target = text + piece.text, piece.target
            continue
        if text:
            yield Piece(text, control=False, target=target)
        text = ""
        yield piece
    if text:
        yield Piece(text, control=False, target=target)
