"""Executing one node where it was placed: from an assignment to a committed artifact.

An assignment is plain data, so it travels to any worker. The worker reads its inputs from the
store by address, checks them against their records, runs the stage and commits what it made.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain import stages
from posttrain.journal import Journal, report_to
from posttrain.plan import Node
from posttrain.recipe import Recipe
from posttrain.stages import Outcome, StageContext
from posttrain.store import Store


@dataclass(frozen=True)
class Assignment:
    """A node to execute: its inputs' addresses and all that decides its result."""

    store: str
    run: str
    stage: str
    node: Node
    inputs: Mapping[str, str]
    seed: int
    backend: str
    services: Mapping[str, str]


def assign(
    node: Node, recipe: Recipe, store: Store, addresses: Mapping[str, str], urls: Mapping[str, str]
) -> Assignment:
    """The assignment of `node`, given the address of each finished node and service URLs."""
    return Assignment(
        store=str(store.root), run=recipe.name, stage=node.name, node=node,
        inputs={role: addresses[source] for role, source in node.inputs.items()},
        seed=recipe.seed, backend=recipe.backend,
        services={name: urls[name] for name in node.config.services()},
    )  # fmt: skip


def execute(assignment: Assignment) -> str:
    """Run the assigned stage and commit its artifact; returns the artifact's address.

    Raises what the stage raises. All it prints goes to its log file, whichever process it is in.
    """
    store = Store(Path(assignment.store))
    journal = Journal(store, assignment.run)
    with _printing_to(journal.log(assignment.stage)):
        return _execute(assignment, store, journal)


def _execute(assignment: Assignment, store: Store, journal: Journal) -> str:
    node = assignment.node
    inputs = {role: store.get(address) for role, address in assignment.inputs.items()}
    for artifact in inputs.values():
        artifact.verify()
    print(f"{assignment.run}/{node.name} ({node.kind}), key {node.key}, process {os.getpid()}")
    draft = store.draft(assignment.run, assignment.stage, node.key, node.work_key)
    progress = journal.progress(assignment.stage)
    context: StageContext[Any] = StageContext(
        name=assignment.stage, config=node.config, inputs=inputs, output=draft.output,
        work=draft.work, seed=assignment.seed, backend=assignment.backend,
        services=assignment.services, suites=node.suites,
        report=lambda sign: report_to(progress, sign),
    )  # fmt: skip
    outcome: Outcome = stages.module(node.kind).run(context)
    artifact = store.commit(
        draft, kind=node.kind, identity=node.identity, inputs=assignment.inputs,
        metrics=outcome.metrics, facts=outcome.facts,
    )  # fmt: skip
    return artifact.address


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Send this process's standard output and error, C libraries included, to `path`."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for handle in (*kept, log):
            os.close(handle)
