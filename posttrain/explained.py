"""Why a stage is reused, runs or is blocked: field by field against its newest artifact.

An artifact's record has the fields behind its key. What differs in them is told; what is only
behind something that changed says behind what.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.plan import Node, Plan
from posttrain.store import Artifact, Store

_ABSENT = object()
_LONGEST = 60


@dataclass(frozen=True)
class Reason:
    """Why `node` has its `state` (reuse, run or blocked).

    `against` is the address compared with, if there is one; `changes` are what differs from it and
    `behind` the inputs that will be others; `downstream` counts stages that run only because of it.
    """

    node: str
    state: str
    against: str | None
    changes: tuple[str, ...]
    behind: tuple[str, ...]
    downstream: int

    def told(self) -> str:
        """In one line."""
        if self.state == "reuse":
            return f"{self.node}: reuse {self.against}"
        if self.against is None:
            return f"{self.node}: {self.state}, for the first time"
        why = [*self.changes]
        if self.behind:
            why.append(f"input {' and '.join(self.behind)} changed")
        many = f"; {self.downstream} downstream stage{'s' * (self.downstream != 1)}"
        more = many if self.changes and self.downstream else ""
        return f"{self.node}: {self.state}, {'; '.join(why)}{more} (against {self.against})"


def reasons(plan: Plan, store: Store) -> dict[str, Reason]:
    """Node -> why, in the order of the plan."""
    newest = _newest(plan, store)
    found: dict[str, Reason] = {}
    for node in plan.nodes.values():
        against = node.cached or newest.get(node.name)
        changed = tuple(changes(node, against.record.identity)) if against else ()
        behind = tuple(dict.fromkeys(_behind(node, against))) if against else ()
        found[node.name] = Reason(
            node.name, "reuse" if node.cached else node.state,
            against.address if against else None, changed, behind, len(_downstream(plan, node)),
        )  # fmt: skip
    return found


def _newest(plan: Plan, store: Store) -> dict[str, Artifact]:
    """The newest artifact of each stage of the plan: of this run, else of any with that stage."""
    found: dict[str, Artifact] = {}
    for artifact in store.artifacts():
        record = artifact.record
        node = plan.nodes.get(record.stage)
        if node is None or node.kind != record.kind:
            continue
        before = found.get(record.stage)
        if before is None or _rank(plan, artifact) > _rank(plan, before):
            found[record.stage] = artifact
    return found


def _rank(plan: Plan, artifact: Artifact) -> tuple[bool, str, int]:
    record = artifact.record
    return record.run == plan.recipe.name, record.created, record.number


def _downstream(plan: Plan, node: Node) -> set[str]:
    """Stages that need `node`, directly or not, and are not there."""
    behind = {node.name}
    for each in plan.nodes.values():  # Inputs stand before their users.
        if behind & set(each.inputs.values()):
            behind.add(each.name)
    return {name for name in behind - {node.name} if not plan.nodes[name].cached}


def _behind(node: Node, against: Artifact) -> Iterator[str]:
    """Names of the nodes that give `node` another input than `against` had."""
    before = against.record.identity.get("inputs", {})
    for role, source in node.inputs.items():
        if role in before and before[role] != node.identity["inputs"][role]:
            yield source


def changes(node: Node, before: Mapping[str, Any]) -> Iterator[str]:
    """What differs between the identity `before` and the node's, but for what inputs hold."""
    after = node.identity
    if before.get("version") != after["version"]:
        yield f"code version {before.get('version')} -> {after['version']}"
    yield from _fields(node.name, before.get("config", {}), after["config"])
    yield from _fields("suite ", before.get("suites", {}), after["suites"])
    for key in ("seed", "backend"):
        yield from _fields(key, before.get(key), after[key])
    roles = {role: node.inputs.get(role) for role in after["inputs"]}
    for role in sorted(before.get("inputs", {}).keys() ^ roles.keys()):
        yield f"input {roles[role]} is new" if role in roles else f"input {role} is gone"
    for name, _, _ in _differences("", before.get("digests") or {}, after.get("digests") or {}):
        yield f"{name.strip('.')} digest changed"


def _fields(name: str, before: Any, after: Any) -> Iterator[str]:
    for path, old, new in _differences(name, before, after):
        yield f"{path.replace(' .', ' ')} {_shown(old)} -> {_shown(new)}"


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Path, value before and value after of each leaf that differs."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _differences(f"{path}.{key}", old, new)
    elif before is _ABSENT or after is _ABSENT or before != after:
        yield path, before, after


def _shown(value: Any) -> str:
    if value is _ABSENT or value is None:
        return "none"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def tree(plan: Plan) -> Iterator[str]:
    """The DAG as indented lines: each node once, below the input it stands closest to."""
    children: dict[str | None, list[Node]] = {}
    for node in plan.nodes.values():
        children.setdefault(_parent(node), []).append(node)
    yield from _branch(plan, children, None, "")


def _parent(node: Node) -> str | None:
    """The checkpoint it starts from, else its first input."""
    inputs = node.inputs
    return inputs.get("from") or next(iter(inputs.values()), None)


def _branch(
    plan: Plan, children: Mapping[str | None, list[Node]], parent: str | None, margin: str
) -> Iterator[str]:
    nodes = children.get(parent, [])
    for node in nodes:
        last = node is nodes[-1]
        twig, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        if parent is None:
            twig, below = "", ""
        others = [name for name in dict.fromkeys(node.inputs.values()) if name != parent]
        also = f" + {', '.join(others)}" if others else ""
        state = "reuse" if node.cached else node.state
        yield f"{margin}{twig}{node.name} ({node.kind}, {state}){also}"
        yield from _branch(plan, children, node.name, margin + below)
