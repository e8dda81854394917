"""The frame of a constraint check: what is asked of a response, and the rule that decides it.

Each instruction id has one `Instruction` with a `repaired` rule (the documented meaning) and, where
the public implementation decides otherwise, an `upstream` rule (figures comparable with papers).
A rule is a pure function of the response and its validated parameters.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.appearance import latin, plain, shown

Mode = Literal["repaired", "upstream"]
Relation = Literal["less than", "at least"]


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_integral), Field(strict=True)]
"""An integer; public data sets write some as 5.0."""
Count = Annotated[Whole, Field(ge=0, le=1_000_000)]
Positive = Annotated[Whole, Field(ge=1, le=1_000_000)]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


Phrase = Annotated[str, Field(max_length=20_000), AfterValidator(_not_blank)]
"""Text with something in it."""


class Parameters(BaseModel):
    """The kwargs of one instruction; this one has none. Nulls are dropped before."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Response:
    """The text under check; what several rules need of it is found once.

    `plain`, `latin`, `words` and `sentences` are as a reader sees them (appearance.py), all else is
    of the text as it is.
    """

    text: str

    @cached_property
    def folded(self) -> str:
        """The text in lower case."""
        return self.text.lower()

    @cached_property
    def plain(self) -> str:
        """The text in ordinary letters, without what does not show."""
        return plain(self.text)

    @cached_property
    def latin(self) -> str:
        """As `plain`, with Latin letters for those of other scripts that pass for them."""
        return latin(self.text)

    @cached_property
    def runs(self) -> list[str]:
        r"""Runs of `\w`, the field's word count: "don't" is two."""
        return texts.runs(self.text)

    @cached_property
    def words(self) -> list[str]:
        """Words as read: "don't" and "well-known" are one each."""
        return texts.words(self.latin)

    @cached_property
    def tokens(self) -> list[str]:
        """What stands between white space."""
        return self.text.split()

    @cached_property
    def lines(self) -> list[str]:
        """Lines, blank ones too, without their ends."""
        return self.text.split("\n")

    @cached_property
    def paragraphs(self) -> list[str]:
        """Stripped blocks between blank lines."""
        return texts.paragraphs(self.text)

    @cached_property
    def sentences(self) -> list[str]:
        """Stripped sentences with their stops, without list and heading marks; see text.py."""
        return texts.sentences(shown(self.text))

    def count(self, phrase: str) -> int:
        """How often a reader finds `phrase` as whole words, whatever the case."""
        if not plain(phrase).strip():
            return texts.count_word(self.text, phrase)
        found = texts.count_word(self.plain, plain(phrase))
        if self.latin == self.plain:
            return found
        return max(found, texts.count_word(self.latin, latin(phrase)))


class Refused(ValueError):
    """What was asked cannot be asked: gold that is none, or a keyword that is no expression."""


P = TypeVar("P", bound=Parameters)
Rule = Callable[[Response, P], bool]


@dataclass
class Instruction(Generic[P]):
    """One id. `asked` says in one line what was asked; `{field}` stands for a parameter."""

    id: str
    parameters: type[P]
    asked: str
    repaired: Rule[P]
    public: Rule[P] | None = None

    def upstream(self, rule: Rule[P]) -> Rule[P]:
        """Decorates the rule of the public implementation, where it is another one."""
        assert self.public is None, self.id
        self.public = rule
        return rule

    def rule(self, mode: Mode) -> Rule[P]:
        """The rule of `mode`; it may raise `Refused`."""
        return self.public if mode == "upstream" and self.public else self.repaired

    def line(self, parameters: P) -> str:
        """What was asked, with the parameters, in one line."""
        shown = _shown(parameters)
        line = _FIELD.sub(lambda field: shown.get(field[1], field[0]), self.asked)
        return " ".join(line.split())


INSTRUCTIONS: dict[str, Instruction[Any]] = {}


def instruction(id: str, parameters: type[P], asked: str) -> Callable[[Rule[P]], Instruction[P]]:
    """Registers the decorated function as the repaired rule of `id`."""

    def register(rule: Rule[P]) -> Instruction[P]:
        assert id not in INSTRUCTIONS, id
        INSTRUCTIONS[id] = Instruction(id, parameters, asked, rule)
        return INSTRUCTIONS[id]

    return register


_FIELD = re.compile(r"\{(\w+)\}")
_SHOWN = 120


def _shown(parameters: Parameters) -> Mapping[str, str]:
    """The parameters as text; long ones are cut."""
    shown = {}
    for name, value in parameters:
        content = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        shown[name] = content if len(content) <= _SHOWN else content[:_SHOWN] + "..."
    return shown


def compare(count: int, relation: Relation, bound: int) -> bool:
    """Whether `count` is `relation` `bound`; "less than" is strict."""
    return count >= bound if relation == "at least" else count < bound
