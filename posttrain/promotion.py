"""Promotion of a checkpoint: gathers the figures that a recipe's gates ask for."""

import subprocess
import sys
from collections.abc import Sequence

from posttrain.gates import Figures, Finding, Promotion, findings
from posttrain.journal import PlannedStage
from posttrain.store import Artifact, Store

_RELOAD_WITHIN = 600.0


def examine(
    store: Store, checkpoint: Artifact, promotion: Promotion, plan: Sequence[PlannedStage]
) -> list[Finding]:
    """Each gate's finding for `checkpoint`, from the evaluations in `plan`."""
    key = checkpoint.record.key
    name = next((stage.name for stage in plan if stage.key == key), checkpoint.record.stage)
    addressed = promotion.model_copy(update={"checkpoint": name})
    figures = _figures(store, plan, name, key)
    return findings(addressed, figures, lambda: reload_fault(checkpoint))


def _figures(store: Store, plan: Sequence[PlannedStage], promoted: str, key: str) -> Figures:
    """What the plan measured; the promoted stage counts only as the artifact that has `key`."""
    keys = store.by_key()
    figures: dict[tuple[str, str], dict[str, float]] = {}
    for stage in plan:
        artifact = keys.get(stage.key) if stage.kind == "evaluate" else None
        if artifact is None:
            continue
        name = stage.inputs["from"]
        if name == promoted and store.get(artifact.record.inputs["from"]).record.key != key:
            continue
        for metric, value in artifact.record.metrics.items():
            suite, _, short = metric.partition(".")
            figures.setdefault((name, suite), {})[short] = value
    return figures


def reload_fault(checkpoint: Artifact) -> str | None:
    """None if files, weights, RoPE, tokenizer and template are as recorded, else what differs.

    The weights are loaded in a process of their own: this one stays free of torch.
    """
    try:
        checkpoint.verify()
    except ValueError as fault:
        return str(fault)
    check = [sys.executable, "-m", "posttrain.training.reload", str(checkpoint.path)]
    try:
        done = subprocess.run(check, capture_output=True, text=True, timeout=_RELOAD_WITHIN)
    except subprocess.TimeoutExpired:
        return f"the checkpoint could not be reloaded within {_RELOAD_WITHIN:.0f} s"
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["the reload failed without a message"])[-1]
