"""Whether two trees say the same, rule by rule for the kinds of things they say."""

from rewards.verifiers.math.contents import same_content
from rewards.verifiers.math.nodes import (
    Group,
    Many,
    Node,
    Operation,
    Relation,
    Symbol,
    is_value,
    renamed,
    walk,
)
from rewards.verifiers.math.records import record, same_several, same_tuples
from rewards.verifiers.math.regions import same_region
from rewards.verifiers.math.relations import difference, same_relation, variable
from rewards.verifiers.math.sameness import proportional, varies
from rewards.verifiers.math.statements import Statement, statements


def equal(gold: Node, answer: Node) -> bool:
    """Whether `answer` says what `gold` says. Unreadable or TooCostly if that cannot be told."""
    if gold == answer:
        return True
    if any(isinstance(node, Many) and node.joint == ";" for node in (gold, answer)):
        return same_tuples(gold, answer, equal)
    wanted, given = statements(gold), statements(answer)
    if len(wanted) == len(given) == 1 and not record(wanted) and not record(given):
        return _single(wanted[0], given[0])
    if (region := _joined(gold, answer)) is not None:
        return region
    return same_several(wanted, given, equal)


def _joined(gold: Node, answer: Node) -> bool | None:
    """Inequalities joined by `or` or `and` describe a region, all of one variable."""
    gold, answer = _joint_told(gold), _joint_told(answer)
    relations = [_inequalities(node) for node in (gold, answer)]
    if not any(
        isinstance(node, Many) and found
        for node, found in zip((gold, answer), relations, strict=True)
    ):
        return None
    variables = {variable(relation) for found in relations for relation in found}
    return len(variables) == 1 and None not in variables and same_region(gold, answer) is True


def _joint_told(node: Node) -> Node:
    """`x > 1, x < 3` is `and`, and `x < 1, x > 3` `or`: each says more than one of its parts."""
    if not isinstance(node, Many) or node.joint != ",":
        return node
    both = Many(node.items, "and")
    relations = _inequalities(both)
    if len(relations) != 2 or len(set(map(variable, relations))) != 1:
        return node
    if same_region(both, Group("\\{", "\\}", ())):
        return Many(node.items, "or")
    return node if any(same_region(both, relation) for relation in relations) else both


def _inequalities(node: Node) -> list[Relation]:
    """The inequalities of a node that is one, or several joined by words; else none."""
    items = node.items if isinstance(node, Many) and node.joint in ("or", "and") else (node,)
    found = [
        item for item in items if isinstance(item, Relation) and not {"=", "in"} & set(item.signs)
    ]
    return found if len(found) == len(items) else []


# One thing on each side.


def _single(gold: Statement, answer: Statement) -> bool:
    answer = _in_terms_of(gold, answer)
    named = gold.name is not None and answer.name is not None
    if named and not _same_name(gold.name, answer.name):
        return _same_equation(gold, answer)
    if isinstance(gold.content, Relation) or isinstance(answer.content, Relation):
        return _relations(gold, answer)
    if same_content(gold.content, answer.content, equal):
        return True
    return named and _same_equation(gold, answer)


def _in_terms_of(gold: Statement, answer: Statement) -> Statement:
    """`f(t) = 2t` said as `f(x) = 2x`, unless `x` has a meaning there already."""
    match gold.name, answer.name:
        case Operation(one, (Symbol() as new,)), Operation(other, (Symbol() as old,)):
            free = new == old or new not in set(walk(answer.content))
            if one == other and free and is_value(answer.content):
                return Statement(renamed(answer.content, old, new), gold.name)
    return answer


def _same_name(one: Node | None, other: Node | None) -> bool:
    """Equal but for bars (`|AB|`, `AB`); what is drawn as `y` may be called `f(x)`."""
    if _without_bars(one) == _without_bars(other):
        return True
    y = Symbol("y")
    rest = [name for name in (one, other) if name != y]
    return len(rest) == 1 and isinstance(rest[0], Operation) and rest[0].name.startswith("call:")


def _without_bars(name: Node | None) -> Node | None:
    return name.arguments[0] if isinstance(name, Operation) and name.name == "abs" else name


def _same_equation(gold: Statement, answer: Statement) -> bool:
    """Whether `y = 2x + 1` and `x = (y - 1)/2` are one equation."""
    if gold.name is None or answer.name is None:
        return False
    if not all(is_value(said.content) and varies(said.content) for said in (gold, answer)):
        return False
    one, other = (difference(said.name, said.content) for said in (gold, answer) if said.name)
    return proportional(one, other, positive=False)


def _relations(gold: Statement, answer: Statement) -> bool:
    """At least one side is a relation that is not merely something's value."""
    if gold.name is not None and _in_itself(gold.name, answer.content):
        return False
    one, other = _as_relation(gold), _as_relation(answer)
    if one is not None and other is not None:
        return same_relation(one, other)
    if is_value(gold.content) or is_value(answer.content):
        return False
    return same_region(gold.content, answer.content) is True


def _in_itself(name: Node, content: Node) -> bool:
    """Whether `content` is an equation such as `x = 3x - 6`, which does not solve for `x`."""
    if not isinstance(content, Relation) or name not in content.sides:
        return False
    return any(side != name and name in walk(side) for side in content.sides)


def _as_relation(said: Statement) -> Relation | None:
    if isinstance(said.content, Relation):
        return said.content
    if said.name is not None and is_value(said.content):
        return Relation(("=",), (said.name, said.content))
    return None
