"""A recipe resolved into a DAG of nodes, each with the key that identifies its result.

A node's key is the digest of all that decides its result: kind and version of the stage, resolved
config, suites measured, seed, backend, and the keys of its inputs. Planning reads the recipe and
the store's records; it starts nothing and imports nothing heavy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from posttrain import digest, stages
from posttrain.auxiliary import planned_fault
from posttrain.gates import Threshold, refusals
from posttrain.names import nearest
from posttrain.recipe import Recipe, Stage
from posttrain.recipe.schema import KIND_OF_DATA
from posttrain.registry import CHECKPOINT_KINDS
from posttrain.stages import DATA_KINDS, StageConfig
from posttrain.store import Artifact, Store

_KINDS_OF_ROLE = {
    "from": CHECKPOINT_KINDS, "tokenizer": ("tokenizer", *CHECKPOINT_KINDS), "data": DATA_KINDS,
    "suite": DATA_KINDS, "benchmark": DATA_KINDS,
    "charter": ("charter",), "completions": ("generate",), "scores": ("score",),
    "reference": ("reference",), "calibration": ("calibrate",),
}  # fmt: skip
"""What a role is played by; the part of its name after a dot says which of several it is."""


@dataclass(frozen=True)
class Node:
    """One piece of work: what it is, what it needs and, if it was done before, its artifact.

    `inputs` maps a role to the node it comes from; `identity` holds the fields behind `key`.
    `blocked` says why it cannot run, where what decides its result is not known yet.
    """

    name: str
    kind: str
    config: StageConfig
    suites: Mapping[str, Any]
    inputs: Mapping[str, str]
    identity: Mapping[str, Any]
    key: str
    cached: Artifact | None
    blocked: str | None = None

    @property
    def work_key(self) -> str:
        """What unfinished work must have in common with this node to be continued by it."""
        config = {
            name: value
            for name, value in self.identity["config"].items()
            if name not in self.config.CONTINUED
        }
        return digest.of_value({**self.identity, "config": config})

    @property
    def state(self) -> str:
        """`cached` if the store has the result, `blocked` if it cannot be made yet, else `run`."""
        if self.cached:
            return "cached"
        return "blocked" if self.blocked else "run"


@dataclass(frozen=True)
class Plan:
    """All nodes of a recipe, inputs before their users."""

    recipe: Recipe
    nodes: Mapping[str, Node]

    def pending(self) -> list[Node]:
        """Nodes whose results the store lacks."""
        return [node for node in self.nodes.values() if not node.cached]

    def check(self) -> None:
        """ValueError if a node is blocked: its key, and those behind it, are not known yet."""
        for node in self.nodes.values():
            if node.blocked:
                raise ValueError(node.blocked)

    def until(self, name: str) -> "Plan":
        """The part of the plan that `name` needs, `name` included; ValueError if unknown."""
        wanted = [node for node in self.nodes if node == name or node.startswith(f"{name}.")]
        if not wanted:
            raise ValueError(
                f"no stage {name!r} in {self.recipe.name}; {nearest(name, self.nodes)}"
            )
        needed: set[str] = set()
        while wanted:
            current = wanted.pop()
            needed.add(current)
            wanted += self.nodes[current].inputs.values()
        return Plan(
            self.recipe, {name: node for name, node in self.nodes.items() if name in needed}
        )


def resolve(recipe: Recipe, store: Store) -> Plan:
    """The plan of a recipe against a store; ValueError names a missing input, suite or a cycle."""
    declared = _expanded(recipe)
    wiring = {name: _inputs(recipe, name, declared) for name in declared}
    _check_promotion(recipe, declared)
    _check_measured(recipe, declared)
    cached = store.by_key()
    nodes: dict[str, Node] = {}
    for name in _ordered(recipe, wiring):
        nodes[name] = _node(recipe, name, declared[name], wiring[name], nodes, cached)
    if recipe.promote and (fault := planned_fault(store, nodes, recipe.promote.checkpoint)):
        raise ValueError(f"{recipe.where(('promote',))}: {fault}")
    return Plan(recipe, nodes)


def _expanded(recipe: Recipe) -> dict[str, Stage]:
    """Stages by node name; one that measures several checkpoints becomes a node for each."""
    declared: dict[str, Stage] = {}
    for name, stage in recipe.stages.items():
        for suffix, config in stage.config.spread(recipe.variants).parts().items():
            declared[f"{name}.{suffix}" if suffix else name] = Stage(stage.kind, config)
    return declared


def _inputs(recipe: Recipe, name: str, declared: Mapping[str, Stage]) -> dict[str, str]:
    stage = declared[name]
    place = _place(recipe, name)
    wanted = dict(stage.config.inputs())
    for suite in stage.config.suites():
        if suite not in recipe.suites:
            raise ValueError(
                f"{place}: {name} measures suite {suite[:60]!r}, which is not declared under "
                f"suites; {nearest(suite, recipe.suites)}"
            )
        if stage.kind != "evaluate" and not recipe.suites[suite].may_steer:
            raise ValueError(
                f"{place}: {name} is steered by suite {suite!r}, which says may_steer: false; "
                "choose another"
            )
        for role, source in recipe.suites[suite].inputs().items():
            if fault := _misplaced(role, source, declared):
                at = recipe.where(("suites", suite, "data" if role == "suite" else role))
                raise ValueError(f"{at}: suite {suite} reads {fault}")
            wanted[f"{role}.{suite}"] = source
        if fault := _absent_split(recipe.suites[suite].data, declared):
            raise ValueError(f"{recipe.where(('suites', suite, 'data'))}: suite {suite} {fault}")
    for role, source in wanted.items():
        fault = _misplaced(role, source, declared)
        if fault:
            raise ValueError(f"{_stated(recipe, name, role)} {fault}")
    sources = {role: declared[wanted[role]].config for role in wanted}
    if unfit := stage.config.misfit(sources) or stage.config.unfit(recipe.backend):
        raise ValueError(f"{place}: {name}: {unfit}")
    for service in stage.config.services():
        if getattr(recipe.services, service, None) is None:
            raise ValueError(f"{place}: {name} needs services.{service}, which is not declared")
    _check_verifiers(recipe, name, stage)
    return wanted


def _stated(recipe: Recipe, name: str, role: str) -> str:
    """Where the recipe says what plays `role` for the node `name`, and what it says there."""
    if name not in recipe.stages:  # One of those that a stage with `of` becomes.
        stage = name.partition(".")[0]
        return f"{recipe.where(('stages', stage, 'of'))}: the `of` of {stage} names"
    keys = ("of",) if role.startswith("from.") else tuple(role.split("."))
    return f"{_place(recipe, name, *keys)}: {name} takes its input {role[:60]!r} from"


def _check_verifiers(recipe: Recipe, name: str, stage: Stage) -> None:
    """ValueError if the stage, or a suite of it, names a verifier that its service lacks."""
    rewards = recipe.services.rewards
    if rewards is None or "rewards" not in stage.config.services():
        return
    served = [each.partition("=")[0] for each in rewards.verifiers]
    parts: list[tuple[tuple[str, ...], Any]] = [(("stages", name), stage.config)]
    parts += [(("suites", suite), recipe.suites[suite]) for suite in stage.config.suites()]
    for start, part in parts:
        for location, verifier in _verifiers(part.model_dump(by_alias=True), start):
            if verifier not in served:
                raise ValueError(
                    f"{recipe.where(location)}: {'.'.join(location)}: services.rewards.verifiers "
                    f"has no {verifier[:60]!r}; add it there, or name one that it has: "
                    f"{', '.join(served)}"
                )


def _verifiers(values: Any, at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each verifier that `values` name, and where."""
    for key, value in values.items() if isinstance(values, Mapping) else ():
        if key == "verifier" and isinstance(value, str):
            yield (*at, key), value
        else:
            yield from _verifiers(value, (*at, str(key)))


def _absent_split(data: str, declared: Mapping[str, Stage]) -> str | None:
    """Why `data` is no split of its entry, where generators and frozen files tell."""
    name, _, split = data.partition(".")
    if declared[name].kind not in ("data", "files"):
        return None
    try:
        rows = declared[name].config.declared_rows()
    except ValueError:
        return None  # Not frozen yet: the node is blocked and says so.
    if not rows or split in rows:
        return None
    return f"reads {data}, and {name} has {' and '.join(rows)} alone; name another split or entry"


def _misplaced(role: str, source: str, declared: Mapping[str, Stage]) -> str | None:
    """Why `source` cannot play `role`, if it cannot."""
    if source not in declared:
        return f"{source[:60]!r}, which {_undeclared(source, declared)}"
    kind, kinds = declared[source].kind, _KINDS_OF_ROLE.get(role.partition(".")[0])
    if kinds and kind not in kinds:
        return f"{source!r}, whose kind is {kind}; that role is for {' or '.join(kinds)}"
    return None


def _undeclared(source: str, declared: Mapping[str, Stage]) -> str:
    """What is wrong with `source`, the name of no node."""
    parts = [
        name
        for name, stage in declared.items()
        if name.startswith(f"{source}.") and stage.kind in CHECKPOINT_KINDS
    ]
    if not parts:
        return f"is not declared; {nearest(source, declared)}"
    return f"is {' and '.join(parts)}; let a stage `kind: select, of: [{source}]` take one of them"


def _place(recipe: Recipe, node: str, *keys: str) -> str:
    """Where the stage or data set behind `node` was written, or a key of it."""
    name = node if node in recipe.stages else node.partition(".")[0]
    stated = name in recipe.stages and recipe.stages[name].kind in KIND_OF_DATA.values()
    block = "data" if stated else "stages"
    return recipe.where((block, name, *keys))


def _ordered(recipe: Recipe, wiring: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    graph = {name: list(dict.fromkeys(inputs.values())) for name, inputs in wiring.items()}
    try:
        return iter(list(TopologicalSorter(graph).static_order()))
    except CycleError as fault:
        ring = fault.args[1]
        place = _place(recipe, ring[0])
        raise ValueError(f"{place}: stages form a cycle: {' <- '.join(ring)}") from None


def _node(
    recipe: Recipe,
    name: str,
    stage: Stage,
    inputs: Mapping[str, str],
    done: Mapping[str, Node],
    cached: Mapping[str, Artifact],
) -> Node:
    suites = {suite: recipe.suites[suite] for suite in stage.config.suites()}
    identity = {
        "kind": stage.kind,
        "version": stages.module(stage.kind).VERSION,
        "config": stage.config.model_dump(
            mode="json", by_alias=True, exclude=set(stage.config.UNKEYED)
        ),
        "suites": {suite: value.model_dump(mode="json") for suite, value in suites.items()},
        "seed": recipe.seed,
        "backend": recipe.backend,
        "inputs": {role: done[source].key for role, source in sorted(inputs.items())},
    }
    why = f"{name}: {lacking}" if (lacking := stage.config.lacking()) else None
    try:
        if digests := stage.config.digests():
            identity["digests"] = digests
    except ValueError as fault:
        why = str(fault)
        identity["digests"] = None
    blocked = f"{_place(recipe, name)}: {why}" if why else None
    key = digest.of_value(identity)
    return Node(
        name, stage.kind, stage.config, suites, inputs, identity, key, cached.get(key), blocked
    )


def _check_promotion(recipe: Recipe, declared: Mapping[str, Stage]) -> None:
    promotion = recipe.promote
    if promotion is None:
        return
    place = recipe.where(("promote",))
    fault = _misplaced("from", promotion.checkpoint, declared)
    if fault:
        raise ValueError(f"{place}: promote.checkpoint is {fault}")
    measured = {
        (source, suite)
        for stage in declared.values()
        for source in stage.config.inputs().values()
        for suite in stage.config.measures()
    }
    for gate in promotion.gates:
        if not isinstance(gate, Threshold):
            continue
        for stage in filter(None, (promotion.checkpoint, gate.against)):
            if stage not in declared:
                told = _undeclared(stage, declared)
                raise ValueError(f"{place}: a gate compares with {stage!r}, which {told}")
            if (stage, gate.suite) not in measured:
                raise ValueError(
                    f"{place}: a gate needs suite {gate.suite!r} of {stage!r}, which no evaluate "
                    "stage measures; add it to the stage's `of` and `measure`"
                )
    prompts = {name: _prompts(suite.data, declared) for name, suite in recipe.suites.items()}
    if faults := [f"{place}: {fault}" for fault in refusals(promotion, prompts.get)]:
        raise ValueError("\n".join(faults))


def _check_measured(recipe: Recipe, declared: Mapping[str, Stage]) -> None:
    stages = {*declared, *(name.partition(".")[0] for name in declared)}
    for name in recipe.measured:
        if name not in stages:
            place = recipe.where(("measured", name))
            raise ValueError(f"{place}: measured.{name[:60]} is no stage; {nearest(name, stages)}")


def _prompts(data: str, declared: Mapping[str, Stage]) -> int | None:
    """Rows of a split such as `prompts.holdout`, where the config of its data tells."""
    name, _, split = data.partition(".")
    try:
        return declared[name].config.declared_rows().get(split) if name in declared else None
    except ValueError:
        return None  # Not frozen yet: the node is blocked and says so.
