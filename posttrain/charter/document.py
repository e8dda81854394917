"""A charter's text and the articles in it.

The file begins with its name and version between lines of `---`. An article begins with a heading
`## ID. Title`; a fenced block ```` ```rule ```` in it is the rule of a judge that needs no model.
"""

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rewards.rules import Rule

_FRONT = re.compile(r"---\n(?P<yaml>.*?)\n---\n", re.DOTALL)
_HEADING = re.compile(r"^##(?!#) *(?P<told>.*)$", re.MULTILINE)
_NAMED = re.compile(r"(?P<id>[A-Za-z0-9][A-Za-z0-9_-]{0,63})\. +(?P<title>\S.*)")
_RULE = re.compile(r"^```rule\n(?P<yaml>.*?)^```$", re.DOTALL | re.MULTILINE)


class _Front(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    charter: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    version: str = Field(min_length=1)


@dataclass(frozen=True)
class Article:
    """An article: what it says, without heading and rule, and the rule if it has one."""

    id: str
    title: str
    text: str
    rule: Rule | None


@dataclass(frozen=True)
class Charter:
    """A charter as read: the whole `text`, its articles in order, and the digest of its bytes."""

    name: str
    version: str
    text: str
    articles: tuple[Article, ...]

    @property
    def sha256(self) -> str:
        """Digest of the text's bytes."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def reference(self) -> dict[str, str]:
        """What every request to a judge says of it."""
        return {"name": self.name, "sha256": self.sha256}

    def chosen(self, ids: Sequence[str] | None) -> tuple[Article, ...]:
        """The articles `ids`, in the charter's order; all without any. ValueError: unknown."""
        known = {article.id for article in self.articles}
        if unknown := [each for each in ids or () if each not in known]:
            raise ValueError(
                f"charter {self.name} has no article {unknown[0][:40]!r}; there are "
                f"{', '.join(sorted(known))}"
            )
        return tuple(each for each in self.articles if ids is None or each.id in ids)


def read(text: str) -> Charter:
    """The charter in `text`; ValueError with the line at fault."""
    match = _FRONT.match(text)
    if match is None:
        raise ValueError("line 1: a charter begins with its name and version between lines of ---")
    front = _checked(_Front, match["yaml"], "line 2")
    headings = list(_HEADING.finditer(text, match.end()))
    ends = [*[heading.start() for heading in headings], len(text)][1:]
    articles = tuple(
        _article(text, heading, end) for heading, end in zip(headings, ends, strict=True)
    )
    return Charter(front.charter, front.version, text, articles)


def _article(text: str, heading: re.Match[str], end: int) -> Article:
    place = f"line {text.count(chr(10), 0, heading.start()) + 1}"
    named = _NAMED.fullmatch(heading["told"].strip())
    if named is None:
        raise ValueError(f"{place}: an article's heading is `## ID. Title`")
    body = text[heading.end() : end]
    blocks = list(_RULE.finditer(body))
    if len(blocks) > 1:
        raise ValueError(f"{place}: article {named['id']} has {len(blocks)} rules; keep one")
    rule = _checked(Rule, blocks[0]["yaml"], f"{place}, rule") if blocks else None
    return Article(named["id"], named["title"], _RULE.sub("", body).strip(), rule)


def _checked(model: type[Any], text: str, place: str) -> Any:
    try:
        return model.model_validate(YAML(typ="safe").load(io.StringIO(text)))
    except YAMLError:
        raise ValueError(f"{place}: this is no YAML") from None
    except ValidationError as fault:
        first = fault.errors(include_input=False, include_url=False)[0]
        where = "".join(f"{step}: " for step in first["loc"])
        told = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {where}{told}") from None
