"""Languages a program may be written in. The built-in ones need only Debian's packages.

A file may add or replace some, one TOML table each:

    [go]
    source = "main.go"
    compile = ["go", "build", "-o", "main", "main.go"]
    binary = "main"
    run = ["./main"]
    version = ["go", "version"]

In `run`, {memory_mb} stands for the memory limit in MiB.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sandbox import tiers

COMPILING = tiers.Limits(
    wall=60, cpu=30, memory=1536 * 2**20, processes=64, output=2**16, files=64 * 2**20
)
LARGEST_BINARY = 32 * 2**20
"""Bytes; it is held in memory, and sent to a slot for each test."""


class Language(BaseModel):
    """How to compile, where needed, and to run a source file called `source`.

    A compiler leaves one file, `binary`; `run` starts it, or the source.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(pattern=r"^[\w.+-]+$")
    compile: tuple[str, ...] | None = None
    binary: str | None = None
    run: tuple[str, ...] = Field(min_length=1)
    version: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _binary_comes_from_a_compiler(self) -> Self:
        if (self.compile is None) != (self.binary is None):
            raise ValueError("give both `compile` and `binary`, or neither")
        return self

    def compilation(self, code: str) -> tiers.Program | None:
        """The run of the compiler on `code`, if there is one."""
        if self.compile is None or self.binary is None:
            return None
        files = {self.source: code.encode()}
        return tiers.Program(self.compile, files, limits=COMPILING, keep=[self.binary])

    def program(self, code: str, binary: bytes | None, limits: tiers.Limits) -> tiers.Program:
        """The run of `code`, or of the binary made of it."""
        memory = str(limits.memory // 2**20)
        argv = [part.replace("{memory_mb}", memory) for part in self.run]
        if self.binary is None or binary is None:
            return tiers.Program(argv, {self.source: code.encode()}, limits=limits)
        return tiers.Program(argv, {self.binary: binary}, limits=limits)


def _compiled(compiler: str, source: str) -> Language:
    return Language(
        source=source, compile=(compiler, "-O2", "-o", "main", source, "-lm"), binary="main",
        run=("./main",), version=(compiler, "-dumpfullversion"),
    )  # fmt: skip


BUILT_IN: Mapping[str, Language] = MappingProxyType(
    {
        "python": Language(
            source="main.py", run=("python", "main.py"), version=("python", "--version")
        ),
        "bash": Language(
            source="main.sh", run=("bash", "main.sh"),
            version=("bash", "-c", "echo $BASH_VERSION"),
        ),
        "javascript": Language(
            source="main.js", run=("node", "--max-old-space-size={memory_mb}", "main.js"),
            version=("node", "--version"),
        ),
        "c": _compiled("gcc", "main.c"),
        "cpp": _compiled("g++", "main.cpp"),
    }
)  # fmt: skip


def load(path: Path | None) -> Mapping[str, Language]:
    """The built-in languages and those of a file; ValueError saying what is wrong with it."""
    if path is None:
        return BUILT_IN
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        added = {name: _language(name, table) for name, table in tables.items()}
    except OSError as fault:
        raise ValueError(f"languages file {path} cannot be read: {fault.strerror}") from None
    except tomllib.TOMLDecodeError as fault:
        raise ValueError(f"languages file {path} is not TOML: {fault}") from None
    except ValueError as fault:
        raise ValueError(f"languages file {path}: {fault}") from None
    return {**BUILT_IN, **added}


def _language(name: str, table: object) -> Language:
    try:
        return Language.model_validate(table)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(map(str, (name, *first["loc"])))
        raise ValueError(f"{where}: {first['msg']}") from None
