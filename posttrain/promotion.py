"""Promotion of a checkpoint: gathers the evidence that a recipe's gates ask for."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from posttrain import auxiliary, digest
from posttrain.gates import Evidence, Finding, Promotion, Scores, findings
from posttrain.journal import PlannedStage
from posttrain.registry import Registry
from posttrain.registry.events import SignOff, version
from posttrain.registry.state import sign_off, waivers
from posttrain.store import Artifact, Store

_RELOAD_WITHIN = 600.0


def examine(
    store: Store,
    checkpoint: Artifact,
    alias: str,
    promotion: Promotion,
    plan: Sequence[PlannedStage],
) -> list[Finding]:
    """Each gate's finding on whether `checkpoint` may become `alias`.

    Figures are those of the evaluations in `plan`; waivers and signatures those of the history.
    """
    key = checkpoint.record.key
    name = next((stage.name for stage in plan if stage.key == key), checkpoint.record.stage)
    addressed = promotion.model_copy(update={"checkpoint": name})
    events, now, known = Registry(store).history(), datetime.now(UTC), version(checkpoint)
    figures: dict[tuple[str, str], dict[str, float]] = {}
    scores: dict[tuple[str, str], Scores] = {}
    for stage, evaluation in _evaluations(store, plan, name, key):
        for metric, value in evaluation.record.metrics.items():
            suite, _, short = metric.partition(".")
            figures.setdefault((stage, suite), {})[short] = value
        scores |= {(stage, suite): found for suite, found in scores_of(evaluation).items()}
    waived = {
        gate: f"by {waiver.author} until {waiver.expires}: {waiver.reason}"
        for gate, waiver in waivers(events, known, now).items()
    }
    evidence = Evidence(
        figures=figures, scores=scores, waivers=waived,
        equivalence=lambda: reload_fault(checkpoint),
        review=lambda: _review_fault(sign_off(events, known, alias), now),
    )  # fmt: skip
    found = findings(addressed, evidence)
    if told := auxiliary.fault(store, checkpoint):
        return [Finding("no auxiliary checkpoint", passed=False, figures=told), *found]
    return found


def _evaluations(
    store: Store, plan: Sequence[PlannedStage], promoted: str, key: str
) -> Iterator[tuple[str, Artifact]]:
    """Stage -> its evaluation; the promoted stage counts only as the artifact that has `key`."""
    keys = store.by_key()
    for stage in plan:
        artifact = keys.get(stage.key) if stage.kind in ("evaluate", "release") else None
        if artifact is None:
            continue
        name = stage.inputs["from"]
        if name != promoted or store.get(artifact.record.inputs["from"]).record.key == key:
            yield name, artifact


def scores_of(evaluation: Artifact) -> dict[str, Scores]:
    """Suite -> scores of its prompts; those of a suite that kept none are left out."""
    path = evaluation.path / "scores.json"
    if not path.is_file():
        return {}
    kept: Mapping[str, Mapping[str, list[list[float]]]] = json.loads(path.read_bytes())
    identity = evaluation.record.identity
    return {
        suite: Scores(
            found["attempts"], [[str(n) for n in names] for names in found["groups"]],
            suite_digest(identity["suites"][suite], identity["inputs"][f"suite.{suite}"]),
        )
        for suite, found in kept.items()
    }  # fmt: skip


def suite_digest(suite: Mapping[str, object], data: str) -> str:
    """What a gate may pin: the digest of a suite's config and the key of its data."""
    return digest.of_value({"suite": dict(suite), "data": data})


def _review_fault(signed: SignOff | None, now: datetime) -> str | None:
    if signed is None:
        return "nobody has signed; next: posttrain sign CHECKPOINT --to ALIAS --reason WHY"
    if not signed.approves:
        return f"refused by {signed.author}: {signed.reason}"
    if not signed.valid(now):
        return f"what {signed.author} signed held until {signed.expires}"
    return None


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
