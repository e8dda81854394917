"""A check of the release suite, and what it may find."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    from posttrain.release.probe import Probe

Outcome = Literal["pass", "fail", "warn", "skip"]
Subject = Literal["server", "model"]

Group = Literal[
    "core", "special_tokens", "streaming", "tools", "multimodal", "multi_turn", "reasoning",
    "robustness", "performance",
]  # fmt: skip


@dataclass(frozen=True)
class Check:
    """`run` returns what speaks for it; else it raises Fails, Warns or Skips with the reason.

    A check of subject `model` asks for what a capable model does and a server cannot help.
    """

    name: str
    group: Group
    run: Callable[["Probe"], str]
    subject: Subject = "server"


@dataclass(frozen=True)
class Result:
    """What a check found."""

    name: str
    group: str
    subject: Subject
    outcome: Outcome
    reason: str
    seconds: float


class Fails(Exception):
    """The check does not hold."""


class Warns(Exception):
    """It holds, yet something should be known before a release."""


class Skips(Exception):
    """It does not apply to this endpoint."""


def fail(reason: str) -> NoReturn:
    """Raise Fails."""
    raise Fails(reason)


def expect(holds: object, reason: str) -> None:
    """Fails with `reason` unless it holds."""
    if not holds:
        raise Fails(reason)


def short(text: object) -> str:
    """A value in few characters, for a reason."""
    told = repr(text)
    return told if len(told) <= 80 else f"{told[:77]}..."
