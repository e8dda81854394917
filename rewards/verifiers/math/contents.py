"""Whether two things that are no relations are the same: values, matrices, ratios, brackets."""

from collections.abc import Sequence
from itertools import pairwise

from rewards.verifiers.math.lists import Equal, as_sets, in_order
from rewards.verifiers.math.matrices import worked_out
from rewards.verifiers.math.nodes import (
    REGIONS,
    Group,
    Matrix,
    Node,
    Number,
    Numeral,
    Operation,
    Relation,
    Symbol,
    is_value,
    number,
)
from rewards.verifiers.math.regions import same_region
from rewards.verifiers.math.sameness import canonical, same_or_alike
from rewards.verifiers.math.statements import statements


def same_content(gold: Node, answer: Node, equal: Equal) -> bool:
    """Whether `answer` is `gold`; `equal` compares what stands inside."""
    gold, answer = worked_out(gold), worked_out(answer)
    if gold == answer:
        return True
    match gold, answer:
        case Numeral(), Numeral():
            return False
        case Matrix(rows), Matrix(others):
            pairs = zip(rows, others, strict=False)
            return len(rows) == len(others) and all(in_order(a, b, equal) for a, b in pairs)
        case Operation(":", sides), Operation(":", others):
            return _ratios(sides, others)
        case Operation(":", (one, other)), Operation("/") | Number():
            return same_or_alike(Operation("/", (one, other)), answer)
        case Operation("/"), Operation(":", (one, other)):
            return same_or_alike(gold, Operation("/", (one, other)))
        case Group(), Group():
            return _groups(gold, answer, equal)
    if is_value(gold) and is_value(answer):
        return _values(gold, answer)
    if canonical(gold) == canonical(answer):
        return True
    return (_is_region(gold) or _is_region(answer)) and same_region(gold, answer) is True


def is_set(node: Node) -> bool:
    """Whether `node` is a set written out in braces."""
    return isinstance(node, Group) and node.opening in ("\\{", "{")


def spread(items: Sequence[Node]) -> list[Node]:
    """The things that `items` say, `\\pm` told apart."""
    return [said.content for item in items for said in statements(item)]


def _is_region(node: Node) -> bool:
    """Whether `node` is a region for sure, and not a tuple that looks like an interval."""
    named = isinstance(node, Operation | Symbol) and node.name in REGIONS
    return named or isinstance(node, Relation)


def _ratios(sides: Sequence[Node], others: Sequence[Node]) -> bool:
    """Proportional, without zeros: `1:2` is `2:4`."""
    if len(sides) != len(others) or number(0) in (*sides, *others):
        return False
    pairs = zip(pairwise(sides), pairwise(others), strict=True)
    return all(
        same_or_alike(Operation("*", (a, d)), Operation("*", (b, c))) for (a, b), (c, d) in pairs
    )


def _groups(gold: Group, answer: Group, equal: Equal) -> bool:
    if is_set(gold) and is_set(answer):
        return as_sets(spread(gold.items), spread(answer.items), equal)
    brackets = (gold.opening, gold.closing) == (answer.opening, answer.closing)
    return brackets and in_order(gold.items, answer.items, equal)


def _values(gold: Node, answer: Node) -> bool:
    """Of a percentage the sign may be missing in the answer, or in a gold number above one."""
    if same_or_alike(gold, answer):
        return True
    wanted, given = _percentage(gold), _percentage(answer)
    if wanted is not None and given is None:
        return same_or_alike(wanted, answer)
    large = isinstance(gold, Number) and abs(gold.value) > 1
    return large and given is not None and same_or_alike(gold, given)


def _percentage(node: Node) -> Node | None:
    if isinstance(node, Operation) and node.name == "%":
        return node.arguments[0]
    return None
