"""The packages whose prompts a recipe may name, and what it may say of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from posttrain.data.packaged import human_eval, ifbench, reasoning
from posttrain.data.packaged.distribution import Installed, resource
from posttrain.data.shards import Shard

Splits = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Source:
    """`rows` makes the splits of seed and parameters; `files` are what it reads of the package.

    `install` is what pip is told to install it.
    """

    package: str
    install: str
    parameters: type[BaseModel]
    rows: Callable[[int, Any], Splits]
    files: Sequence[str] = ()

    def installed(self) -> Installed:
        """The package as it is; ValueError if it is not there."""
        return Installed.find(self.package, self.install)

    def shards(self) -> tuple[Shard, ...]:
        """The files it reads, as they are."""
        return tuple(
            Shard.of(resource(self.package, file, self.install), file) for file in self.files
        )


SOURCES: Mapping[str, Source] = {
    source.package: source
    for source in (
        Source(ifbench.PACKAGE, ifbench.INSTALL, ifbench.Prompts, ifbench.rows, (ifbench.FILE,)),
        Source(
            human_eval.PACKAGE, human_eval.INSTALL, human_eval.Problems, human_eval.rows,
            (human_eval.FILE,),
        ),
        Source(reasoning.PACKAGE, reasoning.INSTALL, reasoning.Questions, reasoning.rows),
    )
}  # fmt: skip
