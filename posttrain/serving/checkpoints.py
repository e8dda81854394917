"""What a user names to be served: checkpoints of a store by address or alias, or folders."""

import json
from collections.abc import Sequence
from pathlib import Path

from posttrain.registry import Registry
from posttrain.serving.manifest import read
from posttrain.serving.server import Served
from posttrain.store import Store


def found(names: Sequence[str], store: Store) -> list[Served]:
    """Each with its manifest; ValueError if one is unknown, named twice or cannot be served."""
    if len(set(names)) < len(names):
        raise ValueError("a checkpoint is named twice; name each once")
    return [_found(name, store) for name in names]


def _found(name: str, store: Store) -> Served:
    if Path(name).is_dir():
        return served(name, Path(name))
    checkpoint = Registry(store).resolve(name)
    checkpoint.verify()
    return served(name, checkpoint.path)


def served(name: str, place: Path) -> Served:
    """The checkpoint in the folder of an artifact, or a model's own; ValueError as of `found`."""
    from posttrain.conversion.converting import Layout

    layout = Layout.of(place)
    if layout.weights != layout.config:
        raise ValueError(f"{name} holds shards of ranks; a stage of kind convert makes one folder")
    manifest = read(layout.weights)
    _check_head(name, layout.weights)
    return Served(name, layout.weights, manifest)


def _check_head(name: str, folder: Path) -> None:
    """ValueError if the head has fewer rows than the embedding: vLLM knows no such head."""
    config = json.loads((folder / "config.json").read_bytes())
    rows = config.get("output_vocab_size")
    if rows not in (None, config["vocab_size"]):
        raise ValueError(
            f"{name} has a head of {rows} rows for {config['vocab_size']} tokens, which vLLM "
            "cannot serve; serve what it was converted from"
        )
