"""Several statements on a side: lists, tuples, and values of several names.

Names must agree where both sides give them; values without names follow the names' order.
"""

from collections.abc import Sequence

from rewards.verifiers.math.contents import is_set, spread
from rewards.verifiers.math.lists import Equal, as_sets, in_order
from rewards.verifiers.math.nodes import Group, Many, Node, Operation, Relation, number
from rewards.verifiers.math.statements import Statement, statements


def record(said: Sequence[Statement]) -> list[Statement] | None:
    """Values of several different names, `(x, y) = (1, 2)` taken apart; None for all else."""
    found: list[Statement] = []
    for one in said:
        match one.name, one.content:
            case Group("(", _, names), Group("(", _, values) if len(names) == len(values):
                found += [Statement(v, n) for n, v in zip(names, values, strict=True)]
            case None, _:
                return None
            case _:
                found.append(one)
    different = {one.name for one in found}
    return found if len(found) > 1 and len(different) == len(found) else None


def same_several(gold: Sequence[Statement], answer: Sequence[Statement], equal: Equal) -> bool:
    """Whether two sides, one of several statements at least, say the same."""
    wanted, given = record(gold), record(answer)
    if wanted is not None and given is not None:
        values = {said.name: said.content for said in given}
        same_names = values.keys() == {said.name for said in wanted}
        return same_names and all(equal(said.content, values[said.name]) for said in wanted)
    if wanted is not None:
        return _nameless(answer) and in_order(_contents(wanted), _ordered(answer), equal)
    if given is not None:
        return _nameless(gold) and _gold_without_names(gold, given, equal)
    return _names_agree(gold, answer) and _lists(gold, answer, equal)


def _gold_without_names(gold: Sequence[Statement], given: list[Statement], equal: Equal) -> bool:
    """`x_1` and `x_2` number the solutions: any order will do for a gold list."""
    if _numbered(given) and not _is_tuple(gold):
        return as_sets(_ordered(gold), _contents(given), equal)
    return in_order(_ordered(gold), _contents(given), equal)


def _lists(gold: Sequence[Statement], answer: Sequence[Statement], equal: Equal) -> bool:
    one, other = _ordered(gold), _ordered(answer)
    if _is_tuple(gold) or _is_tuple(answer):
        sets = is_set(gold[0].content) or is_set(answer[0].content)
        return not sets and in_order(one, other, equal)
    if any(isinstance(content, Relation) for content in [*one, *other]) and len(one) != len(other):
        return False
    return as_sets(one, other, equal)


def _nameless(said: Sequence[Statement]) -> bool:
    """Values without names, and not of a set, whose order would mean nothing."""
    return all(one.name is None for one in said) and not is_set(said[0].content)


def _numbered(said: Sequence[Statement]) -> bool:
    """Whether the names are one letter with the indices 1, 2 and so on."""
    names = [one.name for one in said]
    letters = {name.name if isinstance(name, Operation) else "" for name in names}
    wanted = {(number(at),) for at in range(1, len(said) + 1)}
    indices = {name.arguments for name in names if isinstance(name, Operation)}
    return len(letters) == 1 and letters.pop().startswith("index:") and indices == wanted


def _names_agree(gold: Sequence[Statement], answer: Sequence[Statement]) -> bool:
    one, other = ({said.name for said in side if said.name is not None} for side in (gold, answer))
    return not (one and other) or one == other


def _is_tuple(said: Sequence[Statement]) -> bool:
    content = said[0].content
    tuples = isinstance(content, Group) and (content.opening, content.closing) == ("(", ")")
    return len(said) == 1 and tuples


def _contents(said: Sequence[Statement]) -> list[Node]:
    return [one.content for one in said]


def _ordered(said: Sequence[Statement]) -> list[Node]:
    """The values of a list; those of a set or tuple that stands alone."""
    content = said[0].content
    if len(said) == 1 and isinstance(content, Group) and (is_set(content) or _is_tuple(said)):
        return spread(content.items)
    return _contents(said)


def same_tuples(gold: Node, answer: Node, equal: Equal) -> bool:
    """`p=5, q=2; p=7, q=2`: each part is a tuple, in the order of its names."""
    return as_sets(_tuples(gold), _tuples(answer), equal)


def _tuples(node: Node) -> list[Node]:
    if is_set(node):
        return spread(node.items) if isinstance(node, Group) else []
    if isinstance(node, Many) and node.joint == ";":
        return [_tuple(statements(item)) for item in node.items]
    return [_tuple([said]) for said in statements(node)]


def _tuple(said: Sequence[Statement]) -> Node:
    named = record(said)
    if named is not None:
        said = sorted(named, key=lambda one: repr(one.name))
    if len(said) == 1:
        return said[0].content
    return Group("(", ")", tuple(_contents(said)))
