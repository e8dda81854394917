"""Items to measure with: each list is drawn from a seed, and no two of its items are equal.

Half of the answers are wrong. Responses are about as long as the last words of a solution.
"""

from collections.abc import Callable, Iterator
from random import Random

from rewards.schema import Item

_STEP = "We collect the terms on one side, divide by what they share and check the sign. "
_SHARE_PATHOLOGICAL = 0.05

Form = Callable[[Random], tuple[str, str, str]]
"""Draws gold, an equal answer and a different one."""


def _integer(draw: Random) -> tuple[str, str, str]:
    n = draw.randint(-(10**6), 10**6)
    return str(n), str(n), str(n + draw.randint(1, 9))


def _decimal(draw: Random) -> tuple[str, str, str]:
    n = draw.randint(1, 10**6)
    return f"{n / 100:.2f}", f"{n / 100:.3f}", f"{n / 100 + 0.5:.2f}"


def _fraction(draw: Random) -> tuple[str, str, str]:
    a, b, k = draw.randint(1, 999), draw.randint(2, 99), draw.randint(2, 9)
    return f"\\frac{{{a}}}{{{b}}}", f"\\frac{{{k * a}}}{{{k * b}}}", f"\\frac{{{a + 1}}}{{{b}}}"


def _surd(draw: Random) -> tuple[str, str, str]:
    a, b, c = draw.randint(2, 99), draw.randint(2, 9), draw.randint(2, 99)
    root = f"\\sqrt{{{c}}}"
    return f"{a}+{b}{root}", f"{b}{root} + {a}", f"{b}{root} - {a}"


def _polynomial(draw: Random) -> tuple[str, str, str]:
    a, b = draw.randint(1, 99), draw.randint(1, 99)
    return f"(x+{a})(x-{b})", f"x^2 + {a - b}x - {a * b}", f"x^2 + {a - b}x + {a * b}"


def _interval(draw: Random) -> tuple[str, str, str]:
    a, b = draw.randint(-99, 0), draw.randint(1, 99)
    return f"({a}, {b}]", f"\\left({a},{b}\\right]", f"[{a}, {b}]"


def _set(draw: Random) -> tuple[str, str, str]:
    a, b, c = draw.sample(range(999), 3)
    return f"\\{{{a},{b},{c}\\}}", f"\\{{{c}, {a}, {b}\\}}", f"\\{{{a}, {b}\\}}"


def _equation(draw: Random) -> tuple[str, str, str]:
    a, b = draw.randint(2, 99), draw.randint(1, 999)
    return f"y = {a}x + {b}", f"y={b}+{a}x", f"y={b}-{a}x"


_PLAIN: tuple[Form, ...] = (_integer, _decimal)
_FORMS: tuple[Form, ...] = (
    *(_integer,) * 5, *(_decimal,) * 2, *(_fraction,) * 4, *(_surd,) * 3, *(_polynomial,) * 2,
    _interval, _set, _set, _equation,
)  # fmt: skip


def _endless(draw: Random) -> str:
    """An answer that Math-Verify cannot judge within its limits."""
    n = draw.randint(10**4, 10**6)
    nested = "\\sqrt{" * 200 + str(n) + "}" * 200
    return draw.choice([f"{n}^{{10^{{10}}}}", f"({n}^2)!", f"(({n})!)!", nested])


def numbers(seed: int, count: int) -> list[Item]:
    """Integers and decimals."""
    return list(_items(Random(seed), count, _PLAIN))


def mixed(seed: int, count: int) -> list[Item]:
    """The kinds of answers of a mathematics data set, numbers the most frequent."""
    return list(_items(Random(seed), count, _FORMS))


def pathological(seed: int, count: int) -> list[Item]:
    """As `mixed`, but one answer in twenty does not end."""
    draw = Random(seed)
    items = list(_items(draw, count, _FORMS))
    for at in draw.sample(range(count), round(_SHARE_PATHOLOGICAL * count)):
        items[at] = _item(f"{seed}-{at}-endless", "42", _endless(draw), draw)
    return items


def answers(seed: int, count: int) -> list[Item]:
    """Calls of the answer tool in raw text of about 1 kB."""
    draw = Random(seed)
    items = []
    for at in range(count):
        n = draw.randrange(10**9)
        call = f'[{{"display_answers": {{"answers": ["{n + at % 2}"]}}}}]'
        text = f"<|inner_prefix|>{_STEP * 10}<|inner_suffix|><|tools_prefix|>{call}<|tools_suffix|>"
        items.append(Item(id=f"{seed}-{at}", verifier="answer", response=text, gold=str(n)))
    return items


def _items(draw: Random, count: int, forms: tuple[Form, ...]) -> Iterator[Item]:
    for at in range(count):
        gold, right, wrong = draw.choice(forms)(draw)
        yield _item(f"{draw.random()}-{at}", gold, draw.choice((right, wrong)), draw)


def _item(name: str, gold: str, answer: str, draw: Random) -> Item:
    """Item whose prose differs, so that no verifier has seen it before."""
    text = f"{_STEP * 6} Attempt {draw.randrange(10**9)}.\n\nThe answer is $\\boxed{{{answer}}}$."
    return Item(id=name, verifier="math", response=text, gold=gold)
