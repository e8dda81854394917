"""One conversion from a checkpoint artifact to a folder that was compared with its source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.conversion.card import card
from posttrain.conversion.model import build
from posttrain.conversion.weights import Weights
from posttrain.conversion.writing import write
from posttrain.equivalence.changes import Changes
from posttrain.equivalence.examination import Check, examine
from posttrain.equivalence.rendering import load_tokenizer
from posttrain.registry.lineage import lineage
from posttrain.serving import manifest as serving
from posttrain.store import Artifact, Store
from posttrain.training import checkpoint


@dataclass(frozen=True)
class Layout:
    """Where an artifact keeps its weights, and its config with the tokenizer."""

    weights: Path
    config: Path

    @classmethod
    def of(cls, artifact: Path) -> "Layout":
        """A Hugging Face folder, or verl's: shards of ranks, the rest in `huggingface`."""
        for folder in (artifact / "model", artifact / "actor", artifact):
            if (folder / "huggingface/config.json").is_file():
                return cls(folder, folder / "huggingface")
            if (folder / "config.json").is_file():
                return cls(folder, folder)
        raise ValueError(f"{artifact} holds no model: no config.json is in it")


def convert(source: Artifact, output: Path, changes: Changes) -> tuple[list[Check], dict[str, Any]]:
    """Write `output`/model, examine it and describe it; returns the checks and its facts.

    It holds the manifest that a server goes by, too.

    ValueError if it is not equivalent to its source, but for the changes.
    """
    layout, target = Layout.of(source.path), output / "model"
    write(Weights(layout.weights), layout.config, target, changes)
    checks = examine(layout.weights, target, changes, layout.config)
    if failed := [check for check in checks if not check.passed]:
        told = "; ".join(f"{check.name}: {check.text()}" for check in failed)
        raise ValueError(f"the converted model is not what it was made from: {told}")
    store = Store(source.path.parents[3])
    (target / "README.md").write_text(card(lineage(store, source), changes, checks), "utf-8")
    (target / serving.FILE).write_text(serving.derived(target).text(), "utf-8")
    facts = checkpoint.facts(build(target, Weights(target)), load_tokenizer(target))
    facts["equivalence"] = {check.name: check.text() for check in checks}
    return checks, facts
