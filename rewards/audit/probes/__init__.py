"""Probes of each built-in verifier: makers of right items, and of wrong ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rewards.audit.probe import Maker
from rewards.audit.probes import answer as _answer
from rewards.audit.probes import code as _code
from rewards.audit.probes import constraints as _constraints
from rewards.audit.probes import math as _math


@dataclass(frozen=True)
class Makers:
    """What tells false rejects, and what tells false accepts."""

    right: Sequence[Maker]
    wrong: Sequence[Maker]


MAKERS: Mapping[str, Makers] = MappingProxyType(
    {
        "answer": Makers(_answer.RIGHT, _answer.WRONG),
        "math": Makers(_math.RIGHT, _math.WRONG),
        "constraints": Makers(_constraints.RIGHT, _constraints.WRONG),
        "code": Makers(_code.RIGHT, _code.WRONG),
    }
)
