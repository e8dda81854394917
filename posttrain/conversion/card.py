"""The model card: what a converted model was made from, and how it was compared with that."""

from collections.abc import Iterable, Sequence

from posttrain.equivalence.changes import Changes
from posttrain.equivalence.examination import Check
from posttrain.registry.lineage import origin
from posttrain.store import Artifact


def card(lineage: Sequence[Artifact], changes: Changes, checks: Iterable[Check]) -> str:
    """Markdown: lineage (inputs first), changes, and the figures of the equivalence checks."""
    source = lineage[-1]
    stated = changes.model_dump(exclude_none=True) or {"none": "weights as they were"}
    return "\n".join(
        [
            "---", "library_name: transformers", "pipeline_tag: text-generation", "---", "",
            f"# {source.record.run}: {source.record.stage}", "",
            f"Converted from `{source.address}`, digest `{source.record.digest}`.", "",
            "## Changes", "", *(f"* {name}: {value}" for name, value in stated.items()), "",
            "## Equivalence with what it was made from", "",
            "| check | result |", "|---|---|",
            *(f"| {check.name} | {_cell(check.text())} |" for check in checks), "",
            "## Lineage", "", "| artifact | kind | made from | digest |", "|---|---|---|---|",
            *map(_row, lineage), "",
        ]
    )  # fmt: skip


def _row(artifact: Artifact) -> str:
    inputs = ", ".join(f"{role} `{address}`" for role, address in origin(artifact).inputs.items())
    return (
        f"| `{artifact.address}` | {artifact.record.kind} | {inputs or 'nothing'} | "
        f"`{artifact.record.digest[:16]}` |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
