"""What checks ask an endpoint, and what they get back in the terms of the chat API."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from posttrain.release.check import Skips, fail, short
from posttrain.release.endpoint import Answer, Endpoint, Streamed

SEED = 20261
TOKENS = 48
"""Tokens of a response, unless a check asks for another number."""

_SPARE = 64
"""Tokens of the context that are left alone: settings of the template may add some."""

T = TypeVar("T")
Message = Mapping[str, Any]


def user(text: str) -> dict[str, str]:
    """A message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    """A message of the assistant."""
    return {"role": "assistant", "content": text}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as given out; `arguments` is text that should be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """One choice of an answer, whole or put together from a stream."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish: str | None
    usage: Mapping[str, Any]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Prompt:
    """A prompt as the server tokenised it; `pieces` are the tokens' texts, if it tells them."""

    ids: list[int]
    pieces: list[str]


class Probe:
    """One endpoint under examination; what several checks need is asked once.

    `modalities` are what the model is said to take beside text.
    """

    def __init__(self, endpoint: Endpoint, modalities: Sequence[str] = ()) -> None:
        self.endpoint = endpoint
        self.modalities = modalities
        self._kept: dict[str, Any] = {}

    def once(self, name: str, ask: Callable[[], T]) -> T:
        """What `ask` returned when it was first asked for under `name`."""
        if name not in self._kept:
            self._kept[name] = ask()
        found: T = self._kept[name]
        return found

    def body(self, messages: Sequence[Message], **settings: Any) -> dict[str, Any]:
        """A chat request, greedy and seeded unless the settings say otherwise."""
        usual = {"model": self.endpoint.model, "temperature": 0, "seed": SEED, "max_tokens": TOKENS}
        return {**usual, "messages": list(messages), **settings}

    def raw(self, messages: Sequence[Message], **settings: Any) -> Answer:
        """The answer to a chat request, whatever it is."""
        return self.endpoint.post("/chat/completions", self.body(messages, **settings))

    def chat(self, messages: Sequence[Message], **settings: Any) -> Reply:
        """The reply to a chat request; Fails if there is none."""
        return reply(self.raw(messages, **settings))

    def room(self, messages: Sequence[Message], most: int) -> int:
        """Tokens that a response to `messages` may have: `most`, or what the context leaves."""
        context = self.context()
        if context is None:
            return most
        used = int(self.chat(messages, max_tokens=1).usage.get("prompt_tokens") or 0)
        return max(1, min(most, context - used - _SPARE))

    def context(self) -> int | None:
        """Tokens of the model's context, if the server tells."""
        data = self.endpoint.get("/models").body.get("data") or [{}]
        found = data[0].get("max_model_len")
        return found if isinstance(found, int) else None

    def completion(self, prompt: str | list[int], **settings: Any) -> Answer:
        """The answer to a request without chat template."""
        usual = {"model": self.endpoint.model, "temperature": 0, "seed": SEED, "max_tokens": TOKENS}
        return self.endpoint.post("/completions", {**usual, "prompt": prompt, **settings})

    def streamed(self, messages: Sequence[Message], **settings: Any) -> Streamed:
        """A streamed answer; Fails if it is refused or not closed."""
        found = self.endpoint.stream("/chat/completions", self.body(messages, **settings))
        if found.status != 200:
            fail(f"a stream is refused with status {found.status}")
        if any("error" in event for event in found.events):
            fail(f"the stream tells an error: {short(found.events[-1])}")
        return found

    def tokenized(self, messages: Sequence[Message], **settings: Any) -> Prompt:
        """How the server renders and tokenises a conversation; Skips if it does not tell."""
        body = {"model": self.endpoint.model, "messages": list(messages), "return_token_strs": True}
        return _prompt(self.endpoint.beside("/tokenize", {**body, **settings}))

    def tokens(self, text: str, *, special: bool = False) -> Prompt:
        """How the server tokenises a text; Skips if it does not tell."""
        body = {
            "model": self.endpoint.model, "prompt": text, "add_special_tokens": special,
            "return_token_strs": True,
        }  # fmt: skip
        return _prompt(self.endpoint.beside("/tokenize", body))

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids; Skips if the server does not tell."""
        body = {"model": self.endpoint.model, "tokens": list(ids)}
        answer = self.endpoint.beside("/detokenize", body)
        if answer.status != 200:
            raise Skips("the endpoint does not tell the text of ids (/detokenize)")
        return str(answer.body["prompt"])

    @cached_property
    def opened(self) -> Prompt:
        """A question as the server renders it, the assistant's turn opened."""
        return self.tokenized([user("Hello")])

    @cached_property
    def closed(self) -> Prompt:
        """The same question answered, and nothing opened after it."""
        return self.tokenized([user("Hello"), assistant("Good")], add_generation_prompt=False)

    @property
    def end_id(self) -> int:
        """The id that ends a turn: the last one of a conversation that was answered."""
        return self.closed.ids[-1]

    @cached_property
    def markers(self) -> dict[str, int]:
        """Control tokens of the rendered prompt: text -> id, as known families name them."""
        seen = [*self.opened.pieces, *self.closed.pieces]
        family = next((f for f in FAMILIES if any(name in seen for name in f)), None)
        if family is None:
            raise Skips("the rendered prompt has no control token that is known here")
        found = dict(zip(seen, [*self.opened.ids, *self.closed.ids], strict=True))
        return {name: found.get(name, -1) for name in family}

    def thinking(self) -> dict[str, Any]:
        """Settings that make the assistant think; Skips if the template knows none."""

        def ask() -> dict[str, Any]:
            plain = self.tokenized([user("Hello")]).ids
            for kwargs in ({"enable_thinking": True, "force_thinking": True}, {"thinking": True}):
                if self.tokenized([user("Hello")], chat_template_kwargs=kwargs).ids != plain:
                    return {"chat_template_kwargs": kwargs}
            return {}

        if settings := self.once("thinking", ask):
            return settings
        raise Skips("the template knows no thinking (enable_thinking changes nothing)")


FAMILIES: Sequence[Sequence[str]] = (
    (
        "<|system_start|>", "<|system_end|>", "<|developer_start|>", "<|developer_end|>",
        "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
        "<|tools_prefix|>", "<|tools_suffix|>", "<|tool_output_start|>", "<|tool_output_end|>",
    ),
    ("<|im_start|>", "<|im_end|>"),
    ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
)  # fmt: skip
"""Markers of chat formats, by family. Those of thinking have two names and are asked for apart."""

SCAFFOLD = (
    *(name for family in FAMILIES for name in family), "<|inner_prefix|>", "<|inner_suffix|>",
    "<think>", "</think>", "<tool_call>", "</tool_call>", "</s>", "<|endoftext|>",
)  # fmt: skip
"""What never belongs in what a client is given to read."""


def leaked(*texts: str) -> list[str]:
    """Scaffold that is in texts."""
    return [name for name in SCAFFOLD if any(name in text for text in texts)]


def reply(answer: Answer) -> Reply:
    """The first choice of an answer; Fails if it is not one."""
    if answer.status != 200:
        fail(f"the request was refused, {answer.told}")
    try:
        choice = answer.body["choices"][0]
        message = choice["message"]
        calls = tuple(_call(call) for call in message.get("tool_calls") or ())
        return Reply(
            message.get("content") or "", _reasoning(message), calls, choice["finish_reason"],
            answer.body.get("usage") or {}, answer.body,
        )  # fmt: skip
    except (KeyError, IndexError, TypeError, AttributeError) as fault:
        fail(f"the answer has not the form of the chat API ({fault!r})")


def assembled(stream: Streamed) -> Reply:
    """What the pieces of a stream amount to; Fails if they have not their form."""
    texts: dict[str, str] = {"content": "", "reasoning": ""}
    calls: dict[int, dict[str, str]] = {}
    finish: str | None = None
    usage: Mapping[str, Any] = {}
    try:
        for event in stream.events:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                finish = choice.get("finish_reason") or finish
                delta = choice.get("delta") or {}
                texts["content"] += delta.get("content") or ""
                texts["reasoning"] += _reasoning(delta)
                for call in delta.get("tool_calls") or ():
                    _grow(calls, call)
    except (KeyError, TypeError, AttributeError) as fault:
        fail(f"an event of the stream has not the form of the chat API ({fault!r})")
    made = tuple(ToolCall(**calls[index]) for index in sorted(calls))
    return Reply(texts["content"], texts["reasoning"], made, finish, usage, {})


def _grow(calls: dict[int, dict[str, str]], delta: Mapping[str, Any]) -> None:
    call = calls.setdefault(delta["index"], {"id": "", "name": "", "arguments": ""})
    function = delta.get("function") or {}
    call["id"] = call["id"] or delta.get("id") or ""
    call["name"] += function.get("name") or ""
    call["arguments"] += function.get("arguments") or ""


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    if call.get("type") != "function":
        fail(f"a tool call has the type {call.get('type')!r}, must be 'function'")
    return ToolCall(str(call.get("id") or ""), function["name"], function["arguments"])


def _reasoning(message: Mapping[str, Any]) -> str:
    """Servers name the channel one way or the other."""
    return message.get("reasoning") or message.get("reasoning_content") or ""


def arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, decoded; Fails if they are no JSON object."""
    try:
        decoded = json.loads(call.arguments)
    except ValueError:
        fail(f"the arguments of {call.name} are no JSON: {short(call.arguments)}")
    if not isinstance(decoded, dict):
        fail(f"the arguments of {call.name} are no object: {short(call.arguments)}")
    return decoded


def _prompt(answer: Answer) -> Prompt:
    if answer.status in (404, 405, 501):
        raise Skips("the endpoint does not tell how it tokenises (/tokenize)")
    if answer.status != 200:
        fail(f"/tokenize refuses, {answer.told}")
    ids, pieces = answer.body["tokens"], answer.body.get("token_strs") or []
    return Prompt(list(ids), list(pieces) if len(pieces) == len(ids) else [""] * len(ids))
