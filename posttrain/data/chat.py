"""The chat format: a conversation as token ids with its loss mask, and a response parsed by id.

Always holds: exactly one `<s>`, first; the system and the developer block are always there (empty
text when the row has none); only what the assistant says is a target, its end marker included and
tool outputs excluded, and a document that comes before the chat; text of a row can never become a
control token. Source: facts.md section 3.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, NamedTuple, NotRequired, Self, TypedDict

from transformers import PreTrainedTokenizerBase

from posttrain.data.turn import AssistantTurn, Span, assemble
from posttrain.data.turn import answers as answers

BOS, EOS = "<s>", "</s>"
MARKERS = (
    "<|system_start|>", "<|system_end|>", "<|developer_start|>", "<|developer_end|>",
    "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
    "<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>",
    "<|tool_output_start|>", "<|tool_output_end|>",
)  # fmt: skip
TEMPLATE = resources.files(__package__).joinpath("chat_template.jinja").read_text("utf-8")
"""The same rendering for programs that use `apply_chat_template(enable_thinking=...)`."""


class Tool(TypedDict):
    """A tool on offer; `parameters` maps each name to its TypeScript type, e.g. `string[]`."""

    name: str
    description: str
    parameters: Mapping[str, str]


class Message(TypedDict):
    """One message; all keys but `role` and `content` belong to the assistant."""

    role: Literal["system", "developer", "user", "assistant"]
    content: NotRequired[str | None]
    thoughts: NotRequired[str | None]
    tool_calls: NotRequired[Sequence[Mapping[str, Any]]]
    tool_outputs: NotRequired[Sequence[str]]


class Conversation(TypedDict):
    """What is rendered of a dialogue or prompt row; further keys of the row are ignored.

    `text` is a document between `<s>` and the chat, all of it a target as in pretraining.
    """

    text: NotRequired[str]
    messages: Sequence[Message]
    tools: Sequence[Tool]
    deliberation: bool


class Piece(NamedTuple):
    """A control token or a text between two of them; `target` tells if the loss counts it."""

    text: str
    control: bool
    target: bool


@dataclass(frozen=True)
class Rendered:
    """Token ids and, for each, 1 where it is a target of the loss and 0 elsewhere."""

    ids: list[int]
    mask: list[int]


@dataclass(frozen=True)
class ChatFormat:
    """The format over one tokenizer; `control` gives each control token's id by name."""

    tokenizer: PreTrainedTokenizerBase
    control: Mapping[str, int]

    @classmethod
    def from_tokenizer(cls, tokenizer: PreTrainedTokenizerBase) -> Self:
        """Resolve every control token by name; ValueError names those the tokenizer lacks."""
        vocabulary = tokenizer.get_vocab()
        missing = [name for name in (BOS, EOS, *MARKERS) if name not in vocabulary]
        if missing:
            raise ValueError(f"tokenizer lacks the chat control tokens {', '.join(missing)}")
        return cls(tokenizer, {name: vocabulary[name] for name in (BOS, EOS, *MARKERS)})

    @property
    def stop_ids(self) -> list[int]:
        """Ids that end a generated response: the assistant's end marker, then end of text."""
        return [self.control["<|assistant_end|>"], self.control[EOS]]

    def render(
        self,
        row: Conversation,
        *,
        add_generation_prompt: bool = False,
        force_thinking: bool = False,
    ) -> Rendered:
        """Ids and mask of `row`; `add_generation_prompt` opens an assistant turn at the end.

        With `force_thinking` the opened turn already thinks; the prompt is then no longer what
        the model chose, so it is never a target. ValueError names the message at fault.
        """
        parts = list(pieces(row))
        if add_generation_prompt:
            parts.append(Piece("<|assistant_start|>", control=True, target=False))
            if force_thinking:
                parts.append(Piece("<|inner_prefix|>", control=True, target=False))
        ids, mask = [], []
        for part in parts:
            chunk = [self.control[part.text]] if part.control else self.encode(part.text)
            ids += chunk
            mask += [int(part.target)] * len(chunk)
        return Rendered(ids, mask)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; ValueError if it spells a control token."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        if forged := set(ids) & set(self.control.values()):
            names = [name for name, index in self.control.items() if index in forged]
            raise ValueError(f"text spells control tokens {', '.join(names)}: {text[:80]!r}")
        return ids

    def parse(self, ids: Sequence[int], *, force_thinking: bool = False) -> AssistantTurn:
        """The turn in a response's ids; `force_thinking` as given when its prompt was rendered.

        A response that breaks the format yields a turn whose `error` says where.
        """
        names = {index: name for name, index in self.control.items()}
        spans: list[Span] = [Span("<|inner_prefix|>", "")] if force_thinking else []
        start = 0
        for index, token in enumerate(ids):
            if token in names:
                spans += [Span(None, self._decode(ids[start:index])), Span(names[token], "")]
                start = index + 1
        spans.append(Span(None, self._decode(ids[start:])))
        return assemble([span for span in spans if span.control or span.text])

    def _decode(self, ids: Sequence[int]) -> str:
        text = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text


def pieces(row: Conversation) -> Iterator[Piece]:
    """The control tokens and texts of `row` in order; ValueError for a message out of place."""
    messages = list(row["messages"])
    yield Piece(BOS, control=True, target=False)
    if text := row.get("text"):
        yield Piece(text, control=False, target=True)
    yield from _block("system", _leading(messages, "system"))
    yield from _block("developer", _capabilities(row) + _leading(messages, "developer"))
    for message in messages:
        if message["role"] == "user":
            yield from _block("user", _text(message))
        elif message["role"] == "assistant":
            yield from _assistant(message)
        else:
            raise ValueError(f"{message['role']!r} message after the first turn; it must lead")


def _leading(messages: list[Message], role: str) -> str:
    return _text(messages.pop(0)) if messages and messages[0]["role"] == role else ""


def _text(message: Message) -> str:
    content = message.get("content")
    if not isinstance(content, str):
        raise ValueError(f"content of a {message['role']} message must be text, got {content!r}")
    return content


def _block(role: str, text: str) -> Iterator[Piece]:
    yield Piece(f"<|{role}_start|>", control=True, target=False)
    if text:
        yield Piece(text, control=False, target=False)
    yield Piece(f"<|{role}_end|>", control=True, target=False)


def _capabilities(row: Conversation) -> str:
    deliberation = "enabled" if row["deliberation"] else "disabled"
    tools = "".join(_declaration(tool) for tool in row["tools"])
    listed = f"Tool Capabilities:\n{tools}" if tools else "Tool Capabilities: disabled\n"
    return f"Deliberation: {deliberation}\n{listed}"


def _declaration(tool: Tool) -> str:
    fields = "".join(f"{name}: {kind},\n" for name, kind in tool["parameters"].items())
    signature = f"(_: {{\n{fields}}})" if fields else "()"
    return f"// {tool['description']}\ntype {tool['name']} = {signature} => any;\n"


def _assistant(message: Message) -> Iterator[Piece]:
    yield Piece("<|assistant_start|>", control=True, target=False)
    thoughts, calls = message.get("thoughts"), message.get("tool_calls")
    if thoughts is not None:
        yield from _spanned("<|inner_prefix|>", thoughts, "<|inner_suffix|>", target=True)
    if calls:
        yield from _spanned("<|tools_prefix|>", _calls(calls), "<|tools_suffix|>", target=True)
    if outputs := message.get("tool_outputs"):
        joined = ", ".join(outputs)
        yield from _spanned("<|tool_output_start|>", joined, "<|tool_output_end|>", target=False)
    if content := message.get("content"):
        yield Piece(content, control=False, target=True)
    yield Piece("<|assistant_end|>", control=True, target=True)


def _spanned(opening: str, text: str, closing: str, *, target: bool) -> Iterator[Piece]:
    yield Piece(opening, control=True, target=target)
    if text:
        yield Piece(text, control=False, target=target)
    yield Piece(closing, control=True, target=target)


def _calls(calls: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([{call["name"]: call["arguments"]} for call in calls], ensure_ascii=False)
