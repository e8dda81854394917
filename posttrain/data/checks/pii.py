"""Personal data: e-mail addresses, public IP addresses, bank account and telephone numbers.

What cannot belong to a person is not counted: addresses reserved for documentation, private use
or the machine itself, and numbers whose check digits are wrong. All patterns take linear time.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network
from typing import Literal, NamedTuple

from posttrain.data.checks import iban
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Content, mapped, texts

NEEDS: tuple[str, ...] = ()

Kind = Literal["email", "ip", "iban", "phone"]

MARKERS: dict[Kind, str] = {
    "email": "<email-pii>", "ip": "<ip-pii>", "iban": "<iban-pii>", "phone": "<phone-pii>",
}  # fmt: skip
"""What stands in the place of what was replaced."""


class Parameters(Common):
    """`kinds` are looked for; those of `replace` get a marker, rows with one of `remove` go."""

    remove: tuple[Kind, ...] = ()
    refuse: tuple[Kind, ...] = ()
    kinds: tuple[Kind, ...] = ("email", "ip", "iban")
    replace: tuple[Kind, ...] = ("email", "ip", "iban")


class Span(NamedTuple):
    """Personal data in a text, from `start` to `end`."""

    kind: Kind
    start: int
    end: int


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Look through every text of every row; nothing found is quoted in the report."""
    findings = Findings("pii", asked, inputs.names)
    counted: Counter[str] = Counter()
    for row in inputs.rows():
        found = [
            Finding(text.field, span.kind, f"at character {span.start + 1}")
            for text in texts(row.content)
            for span in spans(text.text, asked.kinds)
        ]
        counted.update(finding.reason for finding in found)
        findings.take(row, found)
    figures = {f"found.{kind}": float(counted[kind]) for kind in asked.kinds}
    replaced = tuple(kind for kind in asked.kinds if kind in asked.replace)
    return findings.outcome(figures, rewrite=partial(_rewritten, replaced) if replaced else None)


def _rewritten(kinds: tuple[Kind, ...], content: Content) -> Content:
    return mapped(content, partial(marked, kinds=kinds))


def marked(text: str, kinds: tuple[Kind, ...]) -> str:
    """`text` with a marker in the place of all personal data of `kinds`."""
    parts, done = [], 0
    for span in spans(text, kinds):
        parts += [text[done : span.start], MARKERS[span.kind]]
        done = span.end
    return "".join([*parts, text[done:]])


def spans(text: str, kinds: tuple[Kind, ...]) -> list[Span]:
    """Personal data in `text`, in order; those that overlap are one, of the first one's kind."""
    found = [span for kind in kinds for span in _FINDERS[kind](text)]
    apart: list[Span] = []
    for span in sorted(found, key=lambda span: span.start):
        if apart and span.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(apart[-1].end, span.end))
        else:
            apart.append(span)
    return apart


_LOCAL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z][A-Za-z0-9-]{1,62}(?![A-Za-z0-9_-])")
_RESERVED = re.compile(
    r"(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local)", re.IGNORECASE
)


def _emails(text: str) -> Iterator[Span]:
    """From each `@` outwards, so that no pattern is tried at every character."""
    at = text.find("@")
    while at >= 0:
        local = _LOCAL.search(text, max(0, at - 64), at)
        domain = _DOMAIN.match(text, at + 1)
        if local and domain and not _RESERVED.fullmatch(domain.group()):
            start = local.start() + len(local.group()) - len(local.group().lstrip(".'`{|*"))
            if start < at and text[at - 1] != ".":
                yield Span("email", start, domain.end())
        at = text.find("@", at + 1)


_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\w)", re.ASCII)
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:.]{2,40}(?<![:.])(?:::)?(?![\w:])")
_ASSIGNED = IPv6Network("2000::/3")
"""The only IPv6 addresses that are handed out to hosts."""


def _addresses(text: str) -> Iterator[Span]:
    for match in _IPV4.finditer(text) if "." in text else ():
        if _public(IPv4Address, match.group()):
            yield Span("ip", match.start(), match.end())
    for match in _IPV6.finditer(text) if ":" in text else ():
        if _public(IPv6Address, match.group()):
            yield Span("ip", match.start(), match.end())


def _public(kind: type[IPv4Address] | type[IPv6Address], written: str) -> bool:
    try:
        address = kind(written)
    except AddressValueError:
        return False
    if isinstance(address, IPv6Address) and address not in _ASSIGNED:
        return False
    return address.is_global and not address.is_multicast


def _accounts(text: str) -> Iterator[Span]:
    for match in iban.START.finditer(text):
        if end := iban.end(text, match.start()):
            yield Span("iban", match.start(), end)


_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[ ./()-]{0,2}\d){6,14}(?!\d)", re.ASCII)


def _phones(text: str) -> Iterator[Span]:
    """Numbers in international form alone: others cannot be told from numbers of any kind."""
    for match in _PHONE.finditer(text) if "+" in text else ():
        yield Span("phone", match.start(), match.end())


_FINDERS: dict[Kind, Callable[[str], Iterator[Span]]] = {
    "email": _emails, "ip": _addresses, "iban": _accounts, "phone": _phones,
}  # fmt: skip
