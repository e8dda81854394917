"""Comparing config files key by key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from posttrain.equivalence.changes import Changes
from posttrain.serving import manifest as serving

_INCIDENTAL = {"transformers_version", "_name_or_path"}
"""Keys that say who wrote a file, and where."""

_ASIDE = {"README.md", "adapter_config.json", serving.FILE}
_WEIGHTS = (".safetensors", ".safetensors.index.json")
_OTHER_WEIGHTS = (".pt", ".bin", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")

FILES = ("config.json", "generation_config.json", "tokenizer_config.json")
_COMPARED_BY_VALUE = {*FILES, "tokenizer.json", "chat_template.jinja"}


def files(folder: Path) -> set[str]:
    """Names of all files and folders but weights, adapters, manifest and model card."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return {name for name in names - _ASIDE if not name.endswith((*_WEIGHTS, *_OTHER_WEIGHTS))}


def faults(source: Path, target: Path, changes: Changes) -> Iterator[str]:
    """One line for each value that differs and was not to change."""
    before_names, after_names = files(source), files(target)
    yield from (f"{name} is missing" for name in sorted(before_names - after_names))
    yield from (f"{name} is extra" for name in sorted(after_names - before_names))
    yield from (f"{name} is not the file it was" for name in _altered(source, target))
    yield from (f"{name} is a second set of weights" for name in _other_weights(target))
    for name in FILES:
        sides = [_read(folder / name) for folder in (source, target)]
        if sides[1] is None:
            continue  # Told as missing, if the source has it.
        allowed = _allowed(changes) if name == "config.json" else {}
        before, after = (dict(_flat(side or {}, "")) for side in sides)
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) == after.get(key):
                continue
            if key not in allowed or allowed[key] != after.get(key):
                yield f"{name}: {key} is {after.get(key)!r}, was {before.get(key)!r}"


def manifest_faults(folder: Path) -> Iterator[str]:
    """Whether the serving manifest in a folder, if one is, is that of its files."""
    if not (folder / serving.FILE).is_file():
        return
    try:
        serving.read(folder)
    except ValueError as fault:
        yield str(fault)


def _altered(source: Path, target: Path) -> Iterator[str]:
    """Files that nobody reads key by key: of a folder among them its own files."""
    for name in sorted((files(source) & files(target)) - _COMPARED_BY_VALUE):
        sides = [_bytes(folder / name) for folder in (source, target)]
        if sides[0] != sides[1]:
            yield name


def _bytes(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def _other_weights(target: Path) -> Iterator[str]:
    """Weights that some reader may take for the safetensors beside them."""
    if any(target.glob("*.safetensors")):
        names = sorted(path.name for path in target.iterdir())
        yield from (name for name in names if name.endswith(_OTHER_WEIGHTS))


def _allowed(changes: Changes) -> dict[str, Any]:
    """Key -> the value it may have changed to."""
    found: dict[str, Any] = {"dtype": changes.dtype} if changes.dtype else {}
    if changes.output_vocabulary is not None:
        found |= {"output_vocab_size": changes.output_vocabulary, "tie_word_embeddings": False}
    return found


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    content: dict[str, Any] = json.loads(path.read_bytes())
    if "torch_dtype" in content:  # Its name in files of transformers 4.
        content["dtype"] = content.pop("torch_dtype")
    return {key: value for key, value in content.items() if key not in _INCIDENTAL}


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{place}.{key}" if place else key)
    else:
        yield place, value


def tied(folder: Path) -> bool:
    """Whether the head of the model in `folder` is its embedding, as its class reads the config."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    return bool(config.tie_word_embeddings)
