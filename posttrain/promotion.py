"""Promotion of a run's checkpoint: gathers the figures its recipe's gates ask for."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from posttrain.gates import Figures, Finding, Promotion, findings
from posttrain.journal import Journal
from posttrain.store import Artifact, Store

_RELOAD_WITHIN = 600.0


def promotion_of(store: Store, run: str) -> Promotion:
    """The `promote` block of the recipe that `run` last executed."""
    block = Journal(store, run).archived()["promote"]
    if block is None:
        raise ValueError(f"the recipe of run {run} has no `promote` block, so it states no gates")
    return TypeAdapter(Promotion).validate_python(block)


def examine(store: Store, checkpoint: Artifact, promotion: Promotion) -> list[Finding]:
    """Each gate's finding for `checkpoint`, from the evaluations of its run."""
    record = checkpoint.record
    addressed = promotion.model_copy(update={"checkpoint": record.stage})
    figures = _figures(store, record.run, checkpoint)
    return findings(addressed, figures, lambda: reload_fault(checkpoint))


def _figures(store: Store, run: str, checkpoint: Artifact) -> Figures:
    """What the run's last plan measured; the promoted stage counts only as this very artifact."""
    stages: Mapping[str, Any] = {s["name"]: s for s in Journal(store, run).archived()["stages"]}
    keys = store.by_key()
    figures: dict[tuple[str, str], dict[str, float]] = {}
    for stage in stages.values():
        artifact = keys.get(stage["key"]) if stage["kind"] == "evaluate" else None
        if artifact is None:
            continue
        source = store.get(artifact.record.inputs["from"])
        name = stage["inputs"]["from"]
        if name == checkpoint.record.stage and source.record.key != checkpoint.record.key:
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
