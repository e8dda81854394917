"""Adopt: a checkpoint made elsewhere, taken over byte by byte, or converted from GGUF.

What it is was stated by a digest, so that files that have changed since refuse. Nothing in a
Hugging Face folder is converted: its weights, RoPE, tokenizer and template are recorded as this
system reads them. Of a GGUF file the values are those that its quantised blocks stand for.
"""

import shutil
from pathlib import Path, PurePath
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, StringConstraints

from posttrain import digest
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 1

_PARTS = {".safetensors", ".json", ".jinja", ".model", ".txt"}
_UNSAFE = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
GGUF = ".gguf"


class Config(StageConfig):
    """`path` is a folder or a GGUF file; `posttrain adopt PATH` prints its `digest`.

    It starts at the recipe's folder, or is that of a file in the installed `package`.
    """

    path: Annotated[str, Field(min_length=1)]
    package: Annotated[str, Field(min_length=1)] | None = None
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None

    _folder: Path | None = PrivateAttr(default=None)

    def placed(self, name: str, recipe: Path) -> Self:
        """With the folder that `path` means."""
        placed = self.model_copy()
        placed._folder = recipe.parent / self.path
        return placed

    @property
    def folder(self) -> Path:
        """Where the checkpoint lies; ValueError if its package is not installed."""
        if self.package is not None:
            from posttrain.data.packaged.distribution import resource

            return resource(self.package, self.path)
        assert self._folder is not None
        return self._folder

    def digests(self) -> dict[str, str]:
        """Nothing beside the config; ValueError if that states no digest."""
        if self.digest is None:
            raise ValueError(
                f"{self.path} has no digest, so nobody knows what it is; "
                f"run: posttrain adopt {self.folder}"
            )
        return {}


def parts(folder: Path) -> dict[str, Path]:
    """Relative name -> file, of all that makes a checkpoint; ValueError if that is not whole."""
    if folder.suffix == GGUF and folder.is_file():
        return {folder.name: folder}
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} is no Hugging Face folder: it has no config.json")
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix in _PARTS
    }
    if not any(name.endswith(".safetensors") for name in files):
        pickled = any(path.suffix in _UNSAFE for path in folder.iterdir())
        why = "; pickled weights run code when read: save them as safetensors" if pickled else ""
        raise ValueError(f"{folder} has no weights in *.safetensors{why}")
    return files


def digest_of(folder: Path) -> str:
    """sha256 over names and contents of all parts, or of a GGUF file's bytes."""
    if folder.suffix == GGUF:
        return digest.of_file(folder)
    return digest.of_files({name: digest.of_file(path) for name, path in parts(folder).items()})


def facts_of(artifact: Path) -> dict[str, Any]:
    """What `artifact/model` is as this system reads it; ValueError if it cannot be trained on."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from posttrain.training import checkpoint

    folder = artifact / "model"
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    except (OSError, ValueError, KeyError, SafetensorError) as fault:
        first = next(iter(str(fault).splitlines()), type(fault).__name__)
        raise ValueError(f"the checkpoint cannot be loaded: {first[:300]}") from None
    return checkpoint.facts(model, tokenizer)


def run(context: StageContext[Config]) -> Outcome:
    """Take the checkpoint over, compare it with the digest, and record what it is."""
    config = context.config
    told = _convert(context) if PurePath(config.path).suffix == GGUF else _copy(context)
    facts = facts_of(context.output) | told
    return Outcome({"parameters": float(facts["parameters"])}, facts)


def _copy(context: StageContext[Config]) -> dict[str, Any]:
    found = parts(context.config.folder)
    for number, (name, path) in enumerate(found.items(), 1):
        target = context.output / "model" / PurePath(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        context.report(Progress(number, len(found), "copy"))
    _compare(context.config, digest_of(context.output / "model"))
    return {}


def _convert(context: StageContext[Config]) -> dict[str, Any]:
    """What the file says of itself, and the package that it is from."""
    from posttrain.gguf.converting import convert

    config = context.config
    _compare(config, digest_of(config.folder))

    def report(done: int, all_of_them: int) -> None:
        context.report(Progress(done, all_of_them, "convert"))

    told = {"gguf": convert(config.folder, context.output / "model", report)}
    if config.package is None:
        return told
    from posttrain.data.packaged.distribution import Installed

    return told | {"package": Installed.find(config.package).told()}


def _compare(config: Config, found: str) -> None:
    if found != config.digest:
        raise ValueError(
            f"{config.path} is not what was stated: its digest is {found}, not "
            f"{config.digest}; restore it, or state the new digest"
        )
