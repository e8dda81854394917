"""Lint: how rows come out of a tokenizer, dataset by dataset.

Each row is rendered as training does it. Found are rows that cannot be, what the mask gets wrong,
text that becomes control tokens or is not what it was, thinking marked in text, and renderings
that change when the conversation goes on.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.masks import bos_findings, mask_findings
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Content, Fault, Row, Text, texts
from posttrain.data.checks.shape import problems

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat, Conversation, Rendered

NEEDS = ("chat",)

Reason = Literal[
    "broken", "bos", "double_bos", "mask_length", "no_target", "split_character", "split_token",
    "control_in_text", "altered_text", "thinking_in_text", "unstable_prefix",
]  # fmt: skip

THINKING = re.compile(r"</?think(?:ing)?>|<\|inner_(?:prefix|suffix)\|>")
"""Both surface forms of the tokens around thinking (facts.md 3.1), and a near one."""


class Parameters(Common):
    """Nothing is removed unless asked for; what makes a row unfit to train on refuses it."""

    remove: tuple[Reason, ...] = ()
    refuse: tuple[Reason, ...] = (
        "broken", "bos", "double_bos", "mask_length", "split_character", "split_token",
        "control_in_text", "unstable_prefix",
    )  # fmt: skip


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Render every row and look at what came out; a broken row is a finding, not the end."""
    findings = Findings("lint", asked, inputs.names)
    linter = Linter(inputs.need_chat())
    counted: Counter[str] = Counter()
    for dataset in inputs.data:
        for row in dataset.read():
            rendered, found = linter.linted(row)
            findings.take(row, found)
            if rendered:
                counted[f"tokens.{dataset.name}"] += len(rendered.ids)
                counted[f"targets.{dataset.name}"] += sum(rendered.mask)
    return findings.outcome(_figures(inputs.names, counted), linter.tokenizer_faults())


def _figures(names: Sequence[str], counted: Mapping[str, int]) -> dict[str, float]:
    figures = {key: float(count) for key, count in counted.items()}
    for name in names:
        tokens = figures.setdefault(f"tokens.{name}", 0.0)
        targets = figures.setdefault(f"targets.{name}", 0.0)
        figures[f"target_share.{name}"] = targets / max(tokens, 1.0)
    return figures


class Linter:
    """Lints one row after the other with one tokenizer."""

    def __init__(self, chat: "ChatFormat") -> None:
        self._chat = chat
        self._control = chat.reserved_names

    def tokenizer_faults(self) -> Iterator[str]:
        """The format alone writes `<s>`: a tokenizer that does too makes it double."""
        encode = self._chat.tokenizer.encode
        if encode("a") != encode("a", add_special_tokens=False):
            yield (
                "the tokenizer adds control tokens of its own, which doubles <s> wherever text is "
                "tokenised by its defaults; remove its post-processor"
            )

    def linted(self, row: Row | Fault) -> tuple["Rendered | None", list[Finding]]:
        """The rendering of a row, None if it has none, and all that is wrong with it."""
        if isinstance(row, Fault):
            return None, [Finding(row.field, "broken", row.problem)]
        found = [Finding(field, "broken", told) for field, told in problems(row.content)]
        if found:
            return None, found
        found = [finding for text in texts(row.content) for finding in self._text(text)]
        if any(finding.reason == "control_in_text" for finding in found):
            return None, found
        try:
            rendered = render(self._chat, row.content)
            return rendered, [*found, *self._rendered(row.content, rendered)]
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            return None, [*found, Finding("", "broken", f"cannot be rendered: {fault}")]

    def _rendered(self, content: Content, rendered: "Rendered") -> Iterator[Finding]:
        yield from bos_findings(self._chat, rendered)
        yield from mask_findings(self._chat, rendered)
        if "messages" in content:
            yield from self._prefixes(content, rendered)

    def _text(self, text: Text) -> Iterator[Finding]:
        """What becomes of one text as tokens."""
        tokenizer = self._chat.tokenizer
        ids = tokenizer.encode(text.text, add_special_tokens=False)
        if forged := {self._control[token] for token in ids if token in self._control}:
            yield Finding(text.field, "control_in_text", f"spells {', '.join(sorted(forged))}")
        elif tokenizer.decode(ids, clean_up_tokenization_spaces=False) != text.text:
            yield Finding(text.field, "altered_text", f"{text.text[:60]!r} does not come back")
        if match := THINKING.search(text.text):
            yield Finding(text.field, "thinking_in_text", f"{match.group()} as text")

    def _prefixes(self, content: Content, rendered: "Rendered") -> Iterator[Finding]:
        """Whether what was said so far renders as it does within the whole, turn by turn.

        Before an answer it is rendered as a prompt, so that training sees what serving will.
        """
        messages = content["messages"]
        for count in range(1, len(messages)):
            if messages[count]["role"] == "tool":
                continue  # All outputs come before the assistant goes on.
            asks = messages[count]["role"] == "assistant"
            begun = cast("Conversation", {**content, "messages": messages[:count]})
            prefix = self._chat.prompt(begun) if asks else self._chat.render(begun)
            size = len(prefix.ids)
            if (prefix.ids, prefix.mask) != (rendered.ids[:size], rendered.mask[:size]):
                told = f"differs from token {_first_difference(prefix, rendered)} on"
                yield Finding(f"messages[{count}]", "unstable_prefix", told)


def render(chat: "ChatFormat", content: Content) -> "Rendered":
    """A row as training renders it."""
    from posttrain.data import rendering  # It needs the tokenizer's library, planning does not.

    return rendering.render(chat, content)


def _first_difference(prefix: "Rendered", whole: "Rendered") -> int:
    pairs = zip(prefix.ids, prefix.mask, whole.ids, whole.mask, strict=False)
    for at, (token, target, other, counted) in enumerate(pairs):
        if (token, target) != (other, counted):
            return at
    return len(whole.ids)
