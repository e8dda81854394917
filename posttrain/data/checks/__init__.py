"""Data checks: each reads rows as they stream by, reports, and says which rows to remove.

A check is one module, and all have the same shape:

    NEEDS: tuple of "benchmarks", "chat"       what of `Inputs` it reads besides the data
    class Parameters(report.Parameters)        what a recipe may say of it
    def run(inputs: Inputs, asked: Parameters) -> Outcome

A check is a function of these: it writes nothing. `identity` is all that decides its result, so
that an outcome can be kept by it and never be stale.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from posttrain import digest

CHECKS = ("decontamination", "licences", "pii", "templates", "duplicates", "lint")


def module(name: str) -> ModuleType:
    """The module of check `name`; ValueError names the known checks."""
    if name not in CHECKS:
        raise ValueError(f"unknown check {name!r}; known checks: {', '.join(CHECKS)}")
    return importlib.import_module(f"{__name__}.{name}")


def identity(
    name: str,
    parameters: Mapping[str, Any],
    *,
    seed: int,
    data: Mapping[str, str],
    benchmarks: Mapping[str, str],
    tokenizer: str | None,
) -> dict[str, Any]:
    """What decides the result of check `name`: digests of all it reads, and of its code.

    `data` and `benchmarks` give the digest of each dataset by name, `tokenizer` that of its files.
    """
    needs = module(name).NEEDS
    return {
        "check": name,
        "parameters": dict(parameters),
        "seed": seed,
        "data": dict(data),
        "benchmarks": dict(benchmarks) if "benchmarks" in needs else {},
        "tokenizer": tokenizer if "chat" in needs else None,
        "code": code(),
    }


def code() -> str:
    """One digest of the checks and of the rendering that they look at."""
    folder = Path(__file__).parent
    sources = [*folder.glob("*.py"), *folder.parent.glob("*.py")]
    return digest.of_files({str(p.relative_to(folder.parent)): digest.of_file(p) for p in sources})
