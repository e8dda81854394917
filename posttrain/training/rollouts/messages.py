"""What is said between a trainer and its rollout engine, as it goes through the pipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DONE, FAULT = "done", "fault"
"""What an answer begins with; the rest is a value, or what went wrong."""


@dataclass(frozen=True)
class Model:
    """What to import before vLLM's model is built, and the arguments of vLLM's `LLM`."""

    patches: Sequence[str]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Loaded:
    """The file of the weights to sample from from now on."""

    path: str


@dataclass(frozen=True)
class Prompts:
    """Ids of prompts, and how to answer them; `seed` and the place decide what is drawn."""

    ids: list[list[int]]
    longest: int
    temperature: float
    stop_ids: list[int]
    seed: int
