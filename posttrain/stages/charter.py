"""Charter: a charter's file as an artifact, so that whoever judges by it says which one it was."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PrivateAttr

from posttrain.charter import Charter, lint, read
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.store import Artifact

VERSION = 1

FILE = "charter.md"


class Config(StageConfig):
    """`charter` is the file's path, from the recipe's folder."""

    charter: Annotated[str, Field(min_length=1)]

    _text: str | None = PrivateAttr(default=None)

    def placed(self, name: str, recipe: Path) -> Self:
        """With the file's text; ValueError if it is missing or no charter."""
        path = recipe.parent / self.charter
        try:
            text = path.read_bytes().decode("utf-8")
            faults = lint.articles(read(text))
        except (OSError, ValueError) as fault:
            raise ValueError(f"charter {self.charter}: {_told(fault)}") from None
        if faults:
            raise ValueError(f"charter {self.charter}: {faults[0]}; see posttrain charter lint")
        placed = self.model_copy()
        placed._text = text
        return placed

    def digests(self) -> dict[str, str]:
        """The digest of the file's bytes."""
        return {"charter": self.read().sha256}

    def read(self) -> Charter:
        """The charter."""
        assert self._text is not None
        return read(self._text)


def _told(fault: Exception) -> str:
    if isinstance(fault, FileNotFoundError):
        return "there is no such file"
    return fault.strerror or str(fault) if isinstance(fault, OSError) else str(fault)


def run(context: StageContext[Config]) -> Outcome:
    """Write the file as it is."""
    charter = context.config.read()
    (context.output / FILE).write_bytes(charter.text.encode())
    context.report(Progress(1, 1, phase="charter"))
    facts = {"charter": charter.name, "version": charter.version, "sha256": charter.sha256}
    return Outcome({"articles": float(len(charter.articles))}, facts)


def load(artifact: Artifact) -> Charter:
    """The charter of an artifact."""
    return read((artifact.path / FILE).read_bytes().decode("utf-8"))
