"""Sums and products of matrices, worked out cell by cell."""

from collections.abc import Callable, Sequence
from functools import reduce

from rewards.verifiers.math.nodes import (
    Matrix,
    Node,
    Operation,
    children,
    negated,
    product_of,
    sum_of,
    walk,
)
from rewards.verifiers.math.tokens import TooCostly, Unreadable

_LARGEST_PRODUCT = 8
"""Most rows and columns of matrices that are multiplied."""


def worked_out(node: Node) -> Node:
    """`node` as one matrix, if it is a sum or product of matrices; else as it is."""
    if not isinstance(node, Operation) or not any(isinstance(n, Matrix) for n in walk(node)):
        return node
    arguments = [worked_out(argument) for argument in children(node)]
    match node.name, arguments:
        case "+", _:
            return reduce(_added, arguments)
        case "*", _:
            return reduce(_multiplied, arguments)
        case "neg", [Matrix() as matrix]:
            return _each(matrix, negated)
        case "/", [Matrix() as matrix, divisor]:
            return _each(matrix, lambda cell: Operation("/", (cell, divisor)))
    raise Unreadable("what is done to a matrix")


def _each(matrix: Matrix, change: Callable[[Node], Node]) -> Matrix:
    return Matrix(tuple(tuple(change(cell) for cell in row) for row in matrix.rows))


def _added(one: Node, other: Node) -> Node:
    if not isinstance(one, Matrix) or not isinstance(other, Matrix) or _shape(one) != _shape(other):
        raise Unreadable("matrices that cannot be added")
    rows = zip(one.rows, other.rows, strict=True)
    return Matrix(tuple(tuple(map(_sum, a, b)) for a, b in rows))


def _multiplied(one: Node, other: Node) -> Node:
    if not isinstance(one, Matrix) or not isinstance(other, Matrix):
        return _scaled(one, other)
    (rows, inner), (height, columns) = _shape(one), _shape(other)
    if inner != height:
        raise Unreadable("matrices that cannot be multiplied")
    if max(rows, inner, columns) > _LARGEST_PRODUCT:
        raise TooCostly("a product of large matrices")
    turned = list(zip(*other.rows, strict=True))
    return Matrix(tuple(tuple(_dot(row, column) for column in turned) for row in one.rows))


def _scaled(one: Node, other: Node) -> Node:
    if isinstance(one, Matrix):
        one, other = other, one
    if not isinstance(other, Matrix):
        return product_of([one, other])
    return _each(other, lambda cell: product_of([one, cell]))


def _sum(one: Node, other: Node) -> Node:
    return sum_of([one, other])


def _dot(row: Sequence[Node], column: Sequence[Node]) -> Node:
    return sum_of([product_of([a, b]) for a, b in zip(row, column, strict=True)])


def _shape(matrix: Matrix) -> tuple[int, int]:
    return len(matrix.rows), len(matrix.rows[0])
