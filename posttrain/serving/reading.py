"""Reading a response as it is generated, by token id: thoughts, content and tool calls.

Always holds: text that merely spells a control token stays text; no control token is ever part of
what is told; a call is told once it is whole and well formed, and what is not is told as content.
However the ids are cut into deltas, what is told is the same in all.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerBase

from posttrain.data.chat import ChatFormat
from posttrain.data.templates import SPANS, TemplateFormat
from posttrain.data.turn import Decode, named_call
from rewards.calls import calls as array_of_calls

Channel = Literal["thoughts", "content"]

_UNFINISHED = "\ufffd"
"""What an unfinished character decodes to."""

_PATIENCE = 8
"""Ids after which a character is given up: it is none."""


@dataclass(frozen=True)
class Markers:
    """Id -> name of each control token, the name being that of the Apertus format.

    `decode` reads the text of a span of calls. Where `layout` holds, blank text beside a span says
    nothing.
    """

    names: Mapping[int, str]
    decode: Decode
    layout: bool

    @classmethod
    def of(cls, chat: ChatFormat) -> "Markers":
        """Those of a chat format."""
        if isinstance(chat, TemplateFormat):
            names = {index: SPANS.get(name, name) for name, index in chat.control.items()}
            return cls({**names, chat.end: "<|assistant_end|>"}, named_call, layout=True)
        names = {index: name for name, index in chat.control.items()}
        return cls(names, array_of_calls, layout=False)

    def id_of(self, name: str) -> int | None:
        """The id of the token called so, if there is one."""
        return next((index for index, each in self.names.items() if each == name), None)


@dataclass(frozen=True)
class Said:
    """A piece of text."""

    channel: Channel
    text: str


@dataclass(frozen=True)
class Called:
    """A whole tool call; `arguments` is JSON."""

    name: str
    arguments: str


Told = Said | Called


class Decoding:
    """Text of ids that come one by one; a character of several ids is told with its last."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._seen = ""

    def step(self, token: int) -> str:
        """What `token` adds to the text: nothing while a character is unfinished."""
        self._window.append(token)
        text = self._decoded(self._window)
        if text.endswith(_UNFINISHED) and len(self._window) <= _PATIENCE:
            return ""
        added = text[len(self._seen) :]
        # The last id stays: what is decoded alone may lack the blank before it.
        self._window = [token]
        self._seen = self._decoded(self._window)
        return added

    def _decoded(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        return text


class ResponseReader:
    """Reads one response. `thinks` tells that its prompt has opened the thoughts already."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, markers: Markers, *, thinks: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._markers = markers
        self._channel: Channel = "thoughts" if thinks else "content"
        self._calling = False
        self._ended = False
        self._restart()

    def feed(self, ids: Sequence[int]) -> Iterator[Told]:
        """What the next ids tell; nothing after the end of the turn."""
        for token in ids:
            if self._ended:
                return
            name = self._markers.names.get(token)
            if name is None:
                yield from self._text(token)
            else:
                yield from self._close()
                self._turn_to(name)

    def finish(self, rest: str = "") -> Iterator[Told]:
        """What is left when generation has ended: a call that was cut off is content.

        `rest` is the text of a token that was not fed, because generation stopped within it.
        """
        calling, channel = self._calling, self._channel
        yield from self._close(whole=False)
        if rest and not self._ended:
            yield Said("content" if calling else channel, rest)

    def _turn_to(self, name: str) -> None:
        if name == "<|inner_prefix|>":
            self._channel = "thoughts"
        elif name == "<|inner_suffix|>":
            self._channel = "content"
        elif name == "<|assistant_end|>":
            self._ended = True
        self._calling = name == "<|tools_prefix|>"

    def _restart(self) -> None:
        self._ids: list[int] = []
        self._told = ""
        self._held = ""
        self._stream = Decoding(self._tokenizer)

    def _text(self, token: int) -> Iterator[Told]:
        self._ids.append(token)
        if self._calling:
            return
        if piece := self._stream.step(token):
            yield from self._say(piece)

    def _say(self, piece: str) -> Iterator[Told]:
        """Tell a piece, unless all of the span so far may turn out to be layout."""
        self._held += piece
        if self._markers.layout and not self._told and not self._held.strip():
            return
        self._told += self._held
        yield Said(self._channel, self._held)
        self._held = ""

    def _close(self, *, whole: bool = True) -> Iterator[Told]:
        """The rest of the span that ends here."""
        text: str = self._tokenizer.decode(self._ids, clean_up_tokenization_spaces=False)
        if self._calling:
            yield from self._calls(text, whole)
        elif not (self._markers.layout and not text.strip()) and len(text) > len(self._told):
            yield Said(self._channel, text[len(self._told) :])
        self._restart()

    def _calls(self, text: str, whole: bool) -> Iterator[Told]:
        try:
            if not whole:
                raise ValueError("the generation ended within the calls")
            calls = self._markers.decode(text)
        except (ValueError, RecursionError):
            if text.strip():
                yield Said("content", text)
            return
        for call in calls:
            yield Called(call.name, json.dumps(call.arguments, ensure_ascii=False))


@dataclass(frozen=True)
class Reply:
    """A response, whole; a channel without text is None."""

    thoughts: str | None
    content: str | None
    calls: tuple[Called, ...]

    @classmethod
    def of(cls, told: Sequence[Told]) -> "Reply":
        """What the pieces amount to."""
        texts = {
            channel: "".join(e.text for e in told if isinstance(e, Said) and e.channel == channel)
            for channel in ("thoughts", "content")
        }
        calls = tuple(each for each in told if isinstance(each, Called))
        return cls(texts["thoughts"] or None, texts["content"] or None, calls)


class Allowance:
    """Lets ids pass as far as their text has been given out.

    A server that stops at a text cuts it off, while its ids go on to the end of the token; and it
    holds text back that may become such a text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._stream = Decoding(tokenizer)
        self._waiting: deque[tuple[list[int], str]] = deque()
        self._open: list[int] = []
        self._left = 0

    def admit(self, ids: Sequence[int], characters: int) -> list[int]:
        """The ids that may pass now that `characters` more were given out."""
        self._left += characters
        for token in ids:
            self._open.append(token)
            if piece := self._stream.step(token):
                self._waiting.append((self._open, piece))
                self._open = []
        passed: list[int] = []
        while self._waiting and len(self._waiting[0][1]) <= self._left:
            tokens, piece = self._waiting.popleft()
            self._left -= len(piece)
            passed += tokens
        return passed

    def rest(self, stops: Sequence[str]) -> tuple[list[int], str]:
        """What else may pass once generation has ended.

        If one of `stops` ended it, the text before that of the token it is in; else all ids.
        """
        text = "".join(piece for _, piece in self._waiting)
        if any(text[self._left :].startswith(stop) for stop in stops):
            return [], text[: self._left]
        return [token for tokens, _ in self._waiting for token in tokens] + self._open, ""
