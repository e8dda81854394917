"""What is told of plans and runs, as plain values: for `--json`, tables and archives."""

import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.journal import Journal, runs
from posttrain.plan import Node, Plan
from posttrain.registry import CHECKPOINT_KINDS
from posttrain.registry.sight import in_sight
from posttrain.store import Store

_POLL = 0.5


def describe(plan: Plan) -> dict[str, Any]:
    """A plan as JSON values: `{"recipe", "stages": [{"name", "kind", "key", "state", ...}]}`."""
    promote = plan.recipe.promote
    return {
        "recipe": plan.recipe.name,
        "promote": promote.model_dump(mode="json", exclude_none=True) if promote else None,
        "stalls": plan.recipe.stalls.model_dump(),
        "stages": [_stage(node) for node in plan.nodes.values()],
    }


def _stage(node: Node) -> dict[str, Any]:
    return {
        "name": node.name, "kind": node.kind, "key": node.key, "state": node.state,
        "inputs": dict(node.inputs), "cores": node.config.cores(),
        "artifact": node.cached.address if node.cached else None,
        "blocked": node.blocked,
        "identity": dict(node.identity),
    }  # fmt: skip


def scores(plan: Plan) -> dict[str, dict[str, float]]:
    """Checkpoint -> metrics of its finished evaluation, in the order of the plan."""
    found: dict[str, dict[str, float]] = {}
    for node in plan.nodes.values():
        if node.kind == "evaluate" and node.cached:
            found.setdefault(node.inputs["from"], {}).update(in_sight(node.cached.record))
    order = [name for name in plan.nodes if name in found]
    return {name: found[name] for name in order}


def run_command(recipe: Path, changes: Sequence[str], store: Path) -> str:
    """The `posttrain run` that does what was planned of `recipe`."""
    given = [part for change in changes for part in ("--set", change)]
    return shlex.join(["posttrain", "run", str(recipe), *given]) + _in_store(store)


def _in_store(store: Path) -> str:
    """The option that names the store, if a command without it would take another."""
    usual = str(store) == os.environ.get("POSTTRAIN_STORE", "store")
    return "" if usual else f" --store {shlex.quote(str(store))}"


def next_commands(
    plan: Plan, last: Node, recipe: Path, changes: Sequence[str], store: Path
) -> list[str]:
    """Three commands worth trying after a run; the last goes on, if something is left of it."""
    made = [n for n in plan.nodes.values() if n.kind in CHECKPOINT_KINDS and n.cached]
    checkpoint = made[-1].cached if made else last.cached
    address = checkpoint.address if checkpoint else f"{plan.recipe.name}/{last.name}@1"
    stage = address.partition("/")[2].partition("@")[0]
    others = [change for change in changes if not change.startswith("seed=")]
    further = changes if plan.pending() else [*others, f"seed={plan.recipe.seed + 1}"]
    return [
        f"posttrain show {address}{_in_store(store)}",
        f"posttrain logs {stage} --run {plan.recipe.name}{_in_store(store)}",
        run_command(recipe, further, store),
    ]


def timing(events: Sequence[Mapping[str, Any]], ray_seconds: float, spent: float) -> str:
    """Wall time, and the stages' seconds split into start-up (before a first step) and work."""
    seconds = [event["seconds"] for event in events if event["event"] == "committed"]
    startup = sum(each["startup"] for each in seconds)
    work = sum(each["work"] for each in seconds)
    return (
        f"{spent:.0f} s of wall time; start of Ray {ray_seconds:.0f} s; "
        f"stages: start-up {startup:.0f} s, work {work:.0f} s (stages overlap)"
    )


def only_run(store: Store) -> str:
    """The store's run, if it has exactly one; else ValueError asks for `--run`."""
    names = runs(store)
    if len(names) != 1:
        raise ValueError(f"this store has {len(names)} runs ({', '.join(names)}); add --run NAME")
    return names[0]


def statuses(store: Store, run: str | None) -> list[dict[str, Any]]:
    """State of one run or of all: each stage's state and what is known of it."""
    return [_status(store, name) for name in ([run] if run else runs(store))]


def _status(store: Store, run: str) -> dict[str, Any]:
    journal = Journal(store, run)
    keys = store.by_key()
    last = {event["stage"]: event for event in journal.events() if event["stage"]}
    stages = []
    for stage in journal.archived().stages:
        if artifact := keys.get(stage.key):
            state, detail = "done", artifact.address
        else:
            state, detail = _unfinished(journal, stage.name, last.get(stage.name))
        stages.append({"name": stage.name, "state": state, "detail": detail})
    finished = all(stage["state"] == "done" for stage in stages)
    return {"run": run, "state": "finished" if finished else "unfinished", "stages": stages}


def _unfinished(journal: Journal, name: str, event: Mapping[str, Any] | None) -> tuple[str, str]:
    if event is None:
        return "waiting", ""
    if event["event"] == "failed":
        return "failed", str(event.get("reason", ""))
    if event["event"] == "stalled":
        return "stalled", f"{event['part']} was silent for {event['silence']:.0f} s"
    sign = journal.latest(name)
    return "started", f"{sign['phase']} {sign['step']}/{sign['steps']}" if sign else ""


def tail(path: Path, follow: bool) -> Iterator[str]:
    """A log's text; with `follow` also what is appended, until the caller stops asking."""
    if not path.is_file():
        raise ValueError(f"no log {path.name} in {path.parent}; has that stage been started?")
    with path.open(errors="replace") as stream:
        while True:
            if piece := stream.read(1 << 16):
                yield piece
            elif follow:
                time.sleep(_POLL)
            else:
                return
