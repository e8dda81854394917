"""A page of sampled rows as they are trained on: every token coloured by what it is.

The page is one file that loads nothing and runs nothing; all text of the data is escaped.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.checks.lint import Linter
from posttrain.data.checks.report import Finding
from posttrain.data.checks.rows import Fault, Row

_SPANS = {
    "<|inner_prefix|>": ("<|inner_suffix|>", "thinking"),
    "<|tools_prefix|>": ("<|tools_suffix|>", "call"),
    "<|tool_output_start|>": ("<|tool_output_end|>", "output"),
}
"""What opens a span -> what closes it, and its class on the page."""

_LEGEND = ("target", "masked", "control", "thinking", "call", "output")

_STYLE = """
body { font: 15px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #222 }
article { border-top: 1px solid #ccc; padding: 1rem 0 }
h2 { font-size: 1rem; margin: 0 } p { margin: .3rem 0 } .fault { color: #a00 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.7 ui-monospace, monospace }
.masked { color: #777 } .target { background: #d8f3dc }
.control { font-weight: bold; outline: 1px solid #bbb }
.thinking { border-bottom: 2px solid #7048e8 } .call { border-bottom: 2px solid #1971c2 }
.output { border-bottom: 2px solid #e8890c }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{style}</style></head>
<body><h1>{title}</h1><p>{legend}</p>
{articles}
</body></html>
"""

_MOST_SHARED = 4
"""Tokens that may share a character: a character has at most four bytes."""


class Sample(NamedTuple):
    """A row with its rendering, None if it has none, and what is wrong with it."""

    row: Row | Fault
    rendered: Rendered | None
    findings: Sequence[Finding]


def sampled(chat: ChatFormat, rows: Iterable[Row | Fault], count: int, seed: int) -> list[Sample]:
    """`count` rows drawn evenly from all while they stream by, in their order, rendered."""
    draw = random.Random(f"sample page {seed}")
    linter = Linter(chat)
    kept: list[tuple[int, Row | Fault]] = []
    for number, row in enumerate(rows):
        if len(kept) < count:
            kept.append((number, row))
        elif (at := draw.randrange(number + 1)) < count:
            kept[at] = (number, row)
    return [Sample(row, *linter.linted(row)) for _, row in sorted(kept, key=lambda pair: pair[0])]


def page(chat: ChatFormat, samples: Iterable[Sample], title: str) -> str:
    """The page as HTML."""
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        legend=" ".join(f'<span class="{name}">{name}</span>' for name in _LEGEND),
        articles="\n".join(_article(chat, sample) for sample in samples),
    )


def _article(chat: ChatFormat, sample: Sample) -> str:
    row, rendered = sample.row, sample.rendered
    head = f"{row.place.dataset}, {row.place}"
    if isinstance(row, Row) and row.id:
        head += f", id {row.id}"
    counts = f"{len(rendered.ids)} tokens, {sum(rendered.mask)} targets" if rendered else "broken"
    faults = "".join(f'<p class="fault">{escape(_told(each))}</p>' for each in sample.findings)
    if rendered:
        body = "".join(_tokens(chat, rendered))
    else:
        body = escape(repr(row.content)) if isinstance(row, Row) else ""
    return f"<article><h2>{escape(head)}</h2><p>{counts}</p>{faults}<pre>{body}</pre></article>"


def _told(finding: Finding) -> str:
    return ": ".join(filter(None, (finding.reason, finding.field, finding.detail)))


def _tokens(chat: ChatFormat, rendered: Rendered) -> Iterator[str]:
    """A span for each token, or for the tokens that share a character; the ids on hovering."""
    classes = list(_classes(chat, rendered))
    for start, end in pairwise(_edges(chat, rendered.ids, classes)):
        ids = rendered.ids[start:end]
        text = escape(_decoded(chat, ids)).replace("\n", "↵\n")
        yield f'<span class="{classes[start]}" title="{" ".join(map(str, ids))}">{text}</span>'


def _edges(chat: ChatFormat, ids: Sequence[int], classes: Sequence[str]) -> Iterator[int]:
    """Where spans begin, and the end of the last."""
    yield 0
    start = 0
    for at in range(1, len(ids) + 1):
        apart = at == len(ids) or classes[at] != classes[start] or at - start >= _MOST_SHARED
        if apart or "\N{REPLACEMENT CHARACTER}" not in _decoded(chat, ids[start:at]):
            yield at
            start = at


def _classes(chat: ChatFormat, rendered: Rendered) -> Iterator[str]:
    """What each token is: a target or not, a control token or not, and in which kind of span."""
    names = {token: name for name, token in chat.control.items()}
    closing: str | None = None
    inside: str | None = None
    for token, target in zip(rendered.ids, rendered.mask, strict=True):
        name = names.get(token)
        if name in _SPANS:
            closing, inside = _SPANS[name]
        kinds = ("target" if target else "masked", "control" if name else None, inside)
        yield " ".join(kind for kind in kinds if kind)
        if name is not None and name == closing:
            closing = inside = None


def _decoded(chat: ChatFormat, ids: Sequence[int]) -> str:
    return str(chat.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
