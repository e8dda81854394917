"""What the large numbers of a tree would weigh together, told without evaluating any."""

from rewards.verifiers.math.nodes import Node, Number, Operation, walk

HEAVIEST = 6_000_000
"""Most bits of all powers and factorials of one answer, which take about a second."""


def too_heavy(node: Node) -> bool:
    """Whether evaluating all powers and factorials of `node` is more than an answer is worth."""
    return sum(_bits(part) for part in walk(node)) > HEAVIEST


def _bits(part: Node) -> int:
    match part:
        case Operation("^", (Number(base, _), Number(exponent, _))) if exponent.denominator == 1:
            longest = max(base.numerator.bit_length(), base.denominator.bit_length())
            return abs(exponent.numerator) * max(longest - 1, 1)
        case Operation("!" | "!!", (Number(value, _),)) if value > 1:
            return int(value) * int(value).bit_length()
    return 0
