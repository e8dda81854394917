"""What can be known to go wrong before anything is started.

The quick part reads the plan, the store's records and the disk. The thorough part asks services for
an answer, and verl whether it has the settings it would be given; it imports verl.
"""

import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from posttrain.forecast import context
from posttrain.plan import Node, Plan
from posttrain.registry import CHECKPOINT_KINDS
from posttrain.services import answers_at_all
from posttrain.store import Artifact, Store

_WHILE_TRAINING = 4
"""Weights, gradients' two moments and a copy: what a training checkpoint takes, in weights."""

_TRAINING = ("pretrain", "sft", "rl", "dpo", "qrpo", "sdpo", "followups")


class Finding(NamedTuple):
    """What was found about `subject`; a `fault` keeps the recipe from running."""

    subject: str
    fault: bool
    told: str


def quick(plan: Plan, store: Store) -> list[Finding]:
    """Findings that take no time."""
    return [*_blocked(plan), *_lengths(plan), *_disk(plan, store)]


def thorough(plan: Plan) -> Iterator[Finding]:
    """Findings that need other programs: services and verl."""
    rewards = plan.recipe.services.rewards
    needed = any("rewards" in node.config.services() for node in plan.pending())
    if rewards and rewards.url and needed:
        answered: bool = answers_at_all(f"{rewards.url}/readyz")
        told = "answers" if answered else "does not answer; start it, or change services.rewards"
        yield Finding(f"reward service at {rewards.url}", not answered, told)
    for node in plan.pending():
        if node.kind == "rl":
            yield _accepted_by_verl(node, plan.recipe.backend)


def _blocked(plan: Plan) -> Iterator[Finding]:
    for node in plan.nodes.values():
        if node.blocked:
            yield Finding(node.name, True, node.blocked)


def _lengths(plan: Plan) -> Iterator[Finding]:
    """Generation that does not fit into the context of the checkpoint that generates."""
    for node in plan.pending():
        config = node.identity["config"]
        lengths = config.get("lengths") or (config.get("online") or {}).get("lengths")
        if not lengths or "from" not in node.inputs:
            continue
        longest = lengths["prompt"] + lengths["response"]
        try:
            most = context(plan, plan.nodes[node.inputs["from"]])
        except (OSError, ValueError, KeyError):
            continue  # Not there yet, and no config tells.
        if longest > most:
            told = (
                f"prompt and response take up to {longest:,} tokens, the context of "
                f"{node.inputs['from']} is {most:,}: lower stages.{node.name}.lengths"
            )
            yield Finding(node.name, True, told)


def _disk(plan: Plan, store: Store) -> Iterator[Finding]:
    """Free space against what the checkpoints to be made will take, where that can be told."""
    sizes = {node.name: _size(node.cached) for node in plan.nodes.values() if node.cached}
    made: list[Node] = []
    unknown: list[Node] = []
    for node in plan.pending():
        if node.kind in CHECKPOINT_KINDS:
            size = sizes.get(node.inputs.get("from", ""), 0)
            sizes[node.name] = size
            (made if size else unknown).append(node)
    if not made:
        return
    training = [sizes[node.name] for node in made if node.kind in _TRAINING]
    needed = sum(sizes[node.name] for node in made) + _WHILE_TRAINING * max(training, default=0)
    free = shutil.disk_usage(_existing(store.root)).free
    more = f", not counting {', '.join(node.name for node in unknown)}" if unknown else ""
    told = f"about {needed / 1e9:.2f} GB for checkpoints{more}; {free / 1e9:.2f} GB are free"
    yield Finding("disk", needed > free, told)


def _size(artifact: Artifact) -> int:
    files = artifact.record.files
    return sum((artifact.path / name).stat().st_size for name in files if name.startswith("model/"))


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _accepted_by_verl(node: Node, backend: str) -> Finding:
    subject = f"{node.name}: verl's settings"
    try:
        _compose(node, backend)
    except ImportError as fault:
        return Finding(subject, False, f"not checked, {fault.name} is not installed here")
    except ValueError as fault:
        return Finding(subject, True, str(fault))
    return Finding(subject, False, "verl has all of them")


def _compose(node: Node, backend: str) -> None:
    import os

    from posttrain.backends import profile
    from posttrain.rl.config import Place, RlConfig, overrides

    os.environ.update(profile("cpu").environment)  # Whatever the run is for, it is checked here.
    from posttrain.rl.session import compose

    assert isinstance(node.config, RlConfig)
    values: Mapping[str, Any] = {"resume": None, "seed": 0}
    place = Place(
        **{each.name: values.get(each.name, Path("unused")) for each in dataclasses.fields(Place)}
    )
    compose(overrides(node.config, place, profile(backend)))
