"""Files: data from outside, as they were when `posttrain data freeze` read them.

The artifact holds their rows as JSON lines. Files that are not what was frozen refuse.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from posttrain import digest
from posttrain.data import formats, manifest
from posttrain.data.manifest import Frozen, differences
from posttrain.data.sources import Files, sound
from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

VERSION = 2

Named = Mapping[Any, Sequence[str]]
"""Split -> paths, as a recipe names them."""

Paths = Annotated[tuple[str, ...], Field(min_length=1)]


def _splits(value: Any) -> Any:
    return {"train": value} if isinstance(value, list) else value


class Config(StageConfig):
    """`files` are the training split, or those of each split; paths start at the recipe's folder.

    With `tokenizer` the manifest says how many tokens there are, and how many the loss counts.
    """

    files: Annotated[
        dict[Literal["train", "holdout"], Paths], BeforeValidator(_splits), Field(min_length=1)
    ]
    format: formats.Format | None = None
    licence: Annotated[str, Field(min_length=1)]
    owner: Annotated[str, Field(min_length=1)]
    tokenizer: Name | None = None

    _place: tuple[str, Path] | None = PrivateAttr(default=None)
    _frozen: Frozen | None = PrivateAttr(default=None)

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        named = [path for paths in files.values() for path in paths]
        if twice := sorted({path for path in named if named.count(path) > 1}):
            raise ValueError(f"{', '.join(twice)[:200]} is named twice; name epochs in the mixture")
        return files

    @model_validator(mode="after")
    def _known_format(self) -> Self:
        for path in [path for paths in self.files.values() for path in paths]:
            # A name without a suffix may be a folder: which format that is, its content tells.
            suffix = PurePath(path).suffix
            if self.format is None and suffix and formats.told_by_suffix(PurePath(path)) is None:
                known = ", ".join(formats.FORMATS)
                raise ValueError(f"suffix {suffix[:20]!r} tells no format; state one: {known}")
        return self

    def placed(self, name: str, recipe: Path) -> Self:
        """With what the recipe's lock says of this entry."""
        placed = self.model_copy()
        placed._place = (name, recipe)
        lock = manifest.read_lock(recipe)
        placed._frozen = lock.data.get(name) if lock else None
        return placed

    def splits(self) -> dict[str, Files]:
        """The files of each split."""
        assert self._place is not None
        name, recipe = self._place
        return {
            split: Files(name, recipe.parent, paths, self.format)
            for split, paths in self.files.items()
        }

    def frozen(self) -> Frozen:
        """What was frozen; ValueError if nothing was, or if the recipe names other files now."""
        assert self._place is not None
        name, recipe = self._place
        if self._frozen is None:
            raise ValueError(
                f"the files of {name} are not frozen yet; run: posttrain data freeze {recipe}"
            )
        if told := list(_changes(self._frozen.files, self.files)):
            raise ValueError(
                f"the files of {name} are not those frozen: {', '.join(told)}; run: posttrain data "
                f"freeze {recipe} --replace"
            )
        return self._frozen

    def inputs(self) -> dict[str, str]:
        """The tokenizer that counts tokens, if one is named."""
        return {"tokenizer": self.tokenizer} if self.tokenizer else {}

    def digests(self) -> dict[str, str]:
        """The digest of the files that were frozen."""
        splits = self.frozen().splits
        return {
            "files": digest.of_value(
                {n: s.model_dump(exclude_none=True) for n, s in splits.items()}
            )
        }

    def declared_rows(self) -> dict[str, int]:
        """The rows that were frozen."""
        return {name: split.rows for name, split in self.frozen().splits.items()}


def _changes(then: Named, now: Named) -> Iterator[str]:
    """What differs between the files of splits, as a recipe names them."""
    before, after = ({(s, p) for s, paths in each.items() for p in paths} for each in (then, now))
    for told, changed in (("missing", before - after), ("extra", after - before)):
        yield from (f"{told} {path[:80]} ({split})" for split, path in sorted(changed)[:3])
        if len(changed) > 3:
            yield f"{told} {len(changed) - 3} more"


def run(context: StageContext[Config]) -> Outcome:
    """Compare the files with what was frozen, and write their rows."""
    files, frozen = context.config.splits(), context.config.frozen()
    for name, each in files.items():
        if told := "; ".join(differences(frozen.splits[name].shards, each.shards())):
            raise ValueError(
                f"the files of {context.name} are not those frozen: {told}; restore them, or "
                "accept them with posttrain data freeze --replace"
            )
    total = sum(split.rows for split in frozen.splits.values())
    written = manifest.write(
        context.output, {name: sound(each.rows()) for name, each in files.items()},
        chat=tokenized(context), report=lambda rows: context.report(Progress(rows, total, "rows")),
        licence=context.config.licence, owner=context.config.owner,
        sources={name: split.shards for name, split in frozen.splits.items()},
    )  # fmt: skip
    for name, split in written.splits.items():
        if split.rows != (wanted := frozen.splits[name].rows):
            raise ValueError(
                f"the files of {context.name} gave {split.rows:,} rows and {wanted:,} were frozen: "
                "they changed while they were read"
            )
    return Outcome(written.figures())


def tokenized(context: StageContext[Any]) -> "ChatFormat | None":
    """The chat format over the tokenizer among the inputs, if there is one."""
    if "tokenizer" not in context.inputs:
        return None
    from posttrain.data.tokenizer import chat_format

    return chat_format(context.inputs["tokenizer"].path)
