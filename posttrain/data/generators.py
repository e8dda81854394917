"""The data generators a recipe may name. Each has its parameters' model and makes splits of rows.

Always holds: `make` is a pure function of seed, parameters and inputs; no row of `holdout`, by the
rule the generator states, occurs in `train`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data import manners, refusals, tiny, tools
from posttrain.data.longcontext import recipes as longcontext
from posttrain.data.longcontext.dictionaries import Lookups
from posttrain.data.longcontext.probes import Probes
from posttrain.data.longcontext.sources import FromDocuments
from posttrain.data.probes import conversations, functions, identity, languages
from posttrain.quantities import Share

Splits = Mapping[str, Iterable[Mapping[str, Any]]]
"""Split -> its rows, which may be made while they are read, once."""

Length = Annotated[int, Field(ge=32, le=2**20)]


class Rows(BaseModel):
    """How many rows to train on, and how many to hold out for measuring."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int = Field(ge=1)
    holdout: int = Field(default=0, ge=0)


class Documents(BaseModel):
    """Size of a corpus: documents to train on, and running totals to hold out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: int = Field(ge=1)
    holdout: int = Field(default=0, ge=0)


class Dialogues(BaseModel):
    """Size of a set of dialogues."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int = Field(ge=1)


class LongDocuments(Dialogues):
    """Dialogues on long documents; each has one of these lengths, in tokens (about)."""

    tokens: tuple[Length, ...] = Field(min_length=1)


class Prompts(Rows):
    """Prompts; `thinking` is the share of them with deliberation enabled."""

    thinking: Share


class Needles(BaseModel):
    """Questions for measuring retrieval, all held out, evenly over `lengths` in tokens (about)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=1)
    lengths: tuple[Length, ...] = Field(min_length=1)


class Requests(Rows):
    """Prompts to be answered in words; `wording` is one of two sets of wordings."""

    wording: manners.Wording = "usual"


class Refusals(BaseModel):
    """Prompts for measuring refusals, all held out: harmless ones, or such as ask for harm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=2)
    sort: refusals.Sort


@dataclass(frozen=True)
class Generator:
    """What a recipe may say to a generator, and how it makes `train` and `holdout` from that."""

    parameters: type[BaseModel]
    make: Callable[[int, Any], Splits]


@dataclass(frozen=True)
class Derived:
    """A generator that reads other nodes of the recipe: those that `parameters.inputs()` names.

    `make` is also given their folders by role, and returns figures beside the splits; these are
    final once all rows were read.
    """

    parameters: type[BaseModel]
    make: Callable[[int, Any, Mapping[str, Path]], tuple[Splits, Mapping[str, float]]]


def _corpus(seed: int, asked: Documents) -> Splits:
    return _splits(tiny.corpus(seed, asked.documents), tiny.chains(seed, asked.holdout))


def _dialogues(seed: int, asked: Dialogues) -> Splits:
    return _splits(tiny.dialogues(seed, asked.rows), [])


def _long_documents(seed: int, asked: LongDocuments) -> Splits:
    return _splits(tiny.long_documents(seed, asked.rows, asked.tokens), [])


def _prompts(seed: int, asked: Prompts) -> Splits:
    return _splits(
        tiny.prompts(seed, asked.rows, asked.thinking),
        tiny.prompts(seed, asked.holdout, asked.thinking, holdout=True),
    )


def _formulas(seed: int, asked: Prompts) -> Splits:
    return _splits(
        tiny.formulas(seed, asked.rows, asked.thinking),
        tiny.formulas(seed, asked.holdout, asked.thinking, holdout=True),
    )


def _pairs(seed: int, asked: Rows) -> Splits:
    return _splits(tiny.pairs(seed, asked.rows), tiny.pairs(seed, asked.holdout, holdout=True))


def _needles(seed: int, asked: Needles) -> Splits:
    return _splits([], tiny.needles(seed, asked.holdout, asked.lengths))


def _manners(seed: int, asked: Dialogues) -> Splits:
    return _splits(manners.dialogues(seed, asked.rows), [])


def _requests(seed: int, asked: Requests) -> Splits:
    return _splits(
        manners.requests(seed, asked.rows, asked.wording),
        manners.requests(seed, asked.holdout, asked.wording, holdout=True),
    )


def _refusals(seed: int, asked: Refusals) -> Splits:
    return _splits([], refusals.prompts(seed, asked.holdout, asked.sort))


def _held_out(rows: Callable[[int, Any], list[dict[str, Any]]]) -> Callable[[int, Any], Splits]:
    """A generator that makes rows to measure on alone."""
    return lambda seed, asked: _splits([], rows(seed, asked))


def _splits(train: list[dict[str, Any]], holdout: list[dict[str, Any]]) -> Splits:
    return {name: rows for name, rows in (("train", train), ("holdout", holdout)) if rows}


GENERATORS: Mapping[str, Generator | Derived] = {
    "tiny.corpus": Generator(Documents, _corpus),
    "tiny.dialogues": Generator(Dialogues, _dialogues),
    "tiny.long_documents": Generator(LongDocuments, _long_documents),
    "tiny.prompts": Generator(Prompts, _prompts),
    "tiny.formulas": Generator(Prompts, _formulas),
    "tiny.needles": Generator(Needles, _needles),
    "tiny.pairs": Generator(Rows, _pairs),
    "tiny.manners": Generator(Dialogues, _manners),
    "tiny.requests": Generator(Requests, _requests),
    "tools.declared": Derived(tools.Declared, tools.declare),
    "probes.refusals": Generator(Refusals, _refusals),
    "probes.functions": Generator(functions.Functions, _held_out(functions.rows)),
    "probes.conversations": Generator(conversations.Conversations, _held_out(conversations.rows)),
    "probes.languages": Generator(languages.Languages, _held_out(languages.rows)),
    "probes.identity": Generator(identity.Identities, _held_out(identity.rows)),
    "longcontext.word_counts": Derived(FromDocuments, longcontext.make_word_counts),
    "longcontext.section_orders": Derived(FromDocuments, longcontext.make_section_orders),
    "longcontext.lookups": Derived(Lookups, longcontext.make_lookups),
    "longcontext.probes": Derived(Probes, longcontext.make_probes),
}
