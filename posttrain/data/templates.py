"""Chat formats that are a Hugging Face template with generation markers; ChatML is one of them.

The text between `{% generation %}` and `{% endgeneration %}` is what the loss counts, so the end
marker of a turn must be among it. Thinking and tool calls are parsed by the ids of the tokens
`<think>` and `<tool_call>`; a tokenizer without them has neither.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Self

import numpy as np
from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.checks.rows import texts
from posttrain.data.conversation import Block, Call, Conversation, Kind, Turn, function, turns
from posttrain.data.turn import AssistantTurn, Span, assemble, named_call

CHATML = resources.files(__package__).joinpath("chatml_template.jinja").read_text("utf-8")
CHATML_MARKERS = ("<|im_start|>", "<|im_end|>")
SPANS: Mapping[str, str] = {
    "<think>": "<|inner_prefix|>", "</think>": "<|inner_suffix|>",
    "<tool_call>": "<|tools_prefix|>", "</tool_call>": "<|tools_suffix|>",
}  # fmt: skip
"""A span's token -> the name of the same in `turn`."""

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_NEEDS = {"thoughts": "<think>", "tool_calls": "<tool_call>"}
_PROBE: Sequence[Mapping[str, Any]] = (
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
)  # fmt: skip

_CALLING: Sequence[Mapping[str, Any]] = (
    {"role": "user", "content": "a"},
    {
        "role": "assistant", "content": "",
        "tool_calls": [{"type": "function", "function": {"name": "b", "arguments": {}}}],
    },
)  # fmt: skip


def has_template(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a template tells the tokenizer's format: its own, or the one for its markers."""
    return bool(tokenizer.chat_template) or _is_chatml(tokenizer)


def _is_chatml(tokenizer: PreTrainedTokenizerBase) -> bool:
    return all(marker in tokenizer.get_vocab() for marker in CHATML_MARKERS)


@dataclass(frozen=True)
class TemplateFormat(ChatFormat):
    """A template over one tokenizer; `end` is the id that ends a turn, `first` the first of all."""

    template: str = CHATML
    end: int = -1
    first: int | None = None

    @classmethod
    def resolved(cls, tokenizer: PreTrainedTokenizerBase) -> Self:
        """The format of the tokenizer's template; ValueError if that does not mark what is said."""
        template = _template(tokenizer)
        if not _GENERATION.search(template):
            raise ValueError(
                "the tokenizer's chat template has no {% generation %} markers, so nothing tells "
                "what the assistant says; put what it says and its end marker between them"
            )
        control = dict(tokenizer.get_added_vocab())
        probe = cls(tokenizer, control, template=template)._rendered(_PROBE, [], False)
        said = [token for token, target in zip(probe.ids, probe.mask, strict=True) if target]
        if not said or said[-1] not in control.values():
            raise ValueError(
                "what the chat template marks as generated does not end with a special token: "
                "a model would not learn to end its turn"
            )
        first = probe.ids[0] if probe.ids[0] == tokenizer.bos_token_id else None
        return cls(tokenizer, control, template=template, end=said[-1], first=first)

    @property
    def bos(self) -> int | None:
        """The tokenizer's begin of text, if the template writes it."""
        return self.first

    @property
    def eos(self) -> int:
        """The tokenizer's end of text; without one, what ends a turn."""
        eos: Any = self.tokenizer.eos_token_id
        return self.end if eos is None else int(eos)

    @property
    def stop_ids(self) -> list[int]:
        """What ends a turn, then end of text."""
        return list(dict.fromkeys((self.end, self.eos)))

    def render(
        self,
        row: Conversation,
        *,
        add_generation_prompt: bool = False,
        force_thinking: bool = False,
        continue_assistant: bool = False,
    ) -> Rendered:
        """As of every format; the template is told `enable_thinking` as the row says."""
        for text in texts(row):
            self.encode(text.text)
        every = turns(row["messages"])
        self._supported(every)
        tools = [{"type": "function", "function": dict(function(tool))} for tool in row["tools"]]
        found = self._rendered(
            list(_messages(every)), tools, row["deliberation"],
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_assistant,
        )  # fmt: skip
        if document := row.get("text"):
            found = self._after(self.encode(document), found)
        if add_generation_prompt and force_thinking:
            found = Rendered([*found.ids, self._token("<think>")], [*found.mask, 0])
        return self.taught(found)

    def parse(self, ids: Sequence[int], *, force_thinking: bool = False) -> AssistantTurn:
        """As of every format; blank text beside a span is layout, no content."""
        names = {index: SPANS.get(name, name) for name, index in self.control.items()}
        names[self.end] = "<|assistant_end|>"
        spans: list[Span] = [Span("<|inner_prefix|>", "")] if force_thinking else []
        start = 0
        for index, token in enumerate(ids):
            if token in names:
                spans += [Span(None, self._decode(ids[start:index])), Span(names[token], "")]
                start = index + 1
        spans.append(Span(None, self._decode(ids[start:])))
        read = [span for span in spans if span.control or span.text.strip()]
        return assemble(read, named_call, one_each=True)

    def outputs(self, texts: Sequence[str], *, deliberation: bool) -> list[int]:
        """What the template writes between the end of a turn that called and the next one."""
        for text in texts:
            self.encode(text)
        told = [{"role": "tool", "content": text} for text in texts]
        found = self._rendered([*_CALLING, *told], [], deliberation, add_generation_prompt=True)
        last = max(at for at, target in enumerate(found.mask) if target)
        assert found.ids[last] == self.end
        return found.ids[last + 1 :]

    def _rendered(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], thinks: bool, **how: bool
    ) -> Rendered:
        try:
            [text], [said] = render_jinja_template(
                [messages], tools=list(tools) or None, chat_template=self.template,
                return_assistant_tokens_mask=True, enable_thinking=thinks,
                **how, **self.tokenizer.special_tokens_map,
            )  # fmt: skip
        except TemplateError as fault:
            raise ValueError(f"the chat template refuses the conversation: {fault}") from None
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts, ends = np.asarray(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2).T
        mask = np.zeros(len(starts), dtype=np.int64)
        for start, end in said:
            mask |= (starts >= start) & (ends <= end) & (ends > starts)
        return Rendered(encoded["input_ids"], mask.tolist())

    def _after(self, document: list[int], chat: Rendered) -> Rendered:
        """The chat with a document before it, after the begin of text if there is one."""
        begin = 0 if self.first is None else 1
        ids = [*chat.ids[:begin], *document, *chat.ids[begin:]]
        mask = [*chat.mask[:begin], *([1] * len(document)), *chat.mask[begin:]]
        return Rendered(ids, mask)

    def _supported(self, every: Sequence[Turn]) -> None:
        for block in (block for turn in every for block in turn.blocks):
            if name := _NEEDS.get(block.kind):
                self._token(name)

    def _token(self, name: str) -> int:
        if name not in self.control:
            raise ValueError(f"tokenizer lacks {name}, which the row needs")
        return self.control[name]


def _template(tokenizer: PreTrainedTokenizerBase) -> str:
    template: Any = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    return str(template or CHATML)


def _messages(every: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Turns as templates know them: one message a step of the assistant, one an output."""
    for turn in every:
        if turn.role == "assistant":
            yield from _steps(turn.blocks)
        elif all(part.kind == "text" for part in turn.parts):
            yield {"role": turn.role, "content": "".join(part.text for part in turn.parts)}
        else:
            parts = [
                {"type": "text", "text": part.text} if part.kind == "text" else {"type": part.kind}
                for part in turn.parts
            ]
            yield {"role": turn.role, "content": parts}


def _steps(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    step: dict[Kind, tuple[Block, ...]] = {}
    for block in blocks:
        late = any(_ORDER.index(block.kind) < _ORDER.index(kind) for kind in step)
        if step and (late or block.kind == "tool_outputs"):
            yield _step(step)
            step = {}
        if block.kind == "tool_outputs":
            yield from ({"role": "tool", "content": output} for output in block.outputs)
        else:
            step[block.kind] = (*step.get(block.kind, ()), block)
    if step or not blocks:
        yield _step(step)


_ORDER: Sequence[Kind] = ("thoughts", "response", "tool_calls", "tool_outputs")
"""The order in which a message holds what is said: what comes too late begins another one."""


def _step(step: Mapping[Kind, Sequence[Block]]) -> dict[str, Any]:
    said = "".join(block.text for block in step.get("response", ()))
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if "thoughts" in step:
        message["reasoning_content"] = "".join(block.text for block in step["thoughts"])
    if "tool_calls" in step:
        calls = [call for block in step["tool_calls"] for call in block.calls]
        message["tool_calls"] = [
            {"type": "function", "function": call._asdict() | {"arguments": _arguments(call)}}
            for call in calls
        ]
    return message


def _arguments(call: Call) -> Any:
    """Decoded, as templates expect them; what is no JSON stays as it is."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments
