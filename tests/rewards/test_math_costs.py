"""What would take a naive verifier seconds or for ever is judged without evaluating it."""

import pytest

from tests.rewards.test_math import judged, score

ROOTS = [r"\sqrt{2+" * (n % 20) + str(n) + "}" * (n % 20) for n in range(60)]
THOUSAND = [str(n) for n in range(1000)]
ROWS = ["&".join(str(row * column) for column in range(30)) for row in range(30)]
MATRIX = rf"\begin{{pmatrix}}{(chr(92) * 2).join(ROWS)}\end{{pmatrix}}"
HUGE = ["10^{10^{10}}", "9^{9^{9^{9}}}", "(10^7)!", "((10!)!)!", "1000000!", "10**10**10"]


@pytest.mark.parametrize("huge", HUGE)
def test_huge_numbers_are_equal_only_as_written(huge: str) -> None:
    assert judged("3", answers=[huge]).score == 0.0
    assert score(huge, f"({huge})" if "**" not in huge else huge) == 1.0
    verdict = judged(huge, answers=["3"])
    assert (verdict.status, verdict.reason) == ("abstained", "bad_gold")


@pytest.mark.parametrize(
    "answer",
    [
        r"\binom{100000000}{50000000}",
        r"\sum_{k=1}^{10000000} \frac{1}{k}",
        r"\sum_{a=1}^{5000}\sum_{b=1}^{5000}\sum_{c=1}^{5000} abc",
        r"\int_0^1 e^{\sin(x^x)} dx",
        "(x+1)^{1000000}",
        r"\sin(10^{10^6})",
        "e^{e^{e^{e^{e}}}}",
        "+".join(rf"\sin^{{{k}}}({k}x)" for k in range(1, 25)),
        ",".join(f"2^{{{1_000_000 + n}}}" for n in range(100)),
        r"\sqrt{" * 2000 + "5" + "}" * 2000,
        "-" * 2000 + "5x",
        "{" * 5000,
        r"\pm 1" * 2000,
        "1+" * 9000 + "1",
        "x" * 19000,
        "1" + " m" * 9000,
        "0." + "12" * 9000 + "...",
        "9" * 100_000,
        "1e999999999",
        "1,000" * 4000,
        r"\text{" + "a " * 9000 + "}",
    ],
)
def test_costly_answers_earn_nothing(answer: str) -> None:
    assert judged("3", answers=[answer]).score == 0.0


@pytest.mark.parametrize(
    "costly",
    [
        r"\frac{3^{1200000}+1}{7^{700000}+1}",
        r"\gcd(10^{100000}+1,10^{99999}+3)",
        r"\operatorname{lcm}(10^{100000}+1,10^{99999}+3)",
        r"3^{10^{100000}+1} \bmod (10^{100000}+3)",
        r"(10^{200000}+7) \bmod (10^{100000}+3)",
        "+".join(["(1+2)^{1200000}"] * 40),
        ",".join(f"(1+2)^{{{100_000 + n}}}" for n in range(50)),
        r"\prod_{k=1}^{5000} (k^{100}+1)",
        r"\sum_{k=1}^{5000} \frac{1}{k^{100}+1}",
    ],
)
def test_long_exact_arithmetic_is_refused(costly: str) -> None:
    assert judged("3", answers=[costly]).reason == "too_costly"
    assert judged(costly, answers=["3"]).reason == "bad_gold"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (rf"\{{{','.join(THOUSAND)}\}}", rf"\{{{','.join(THOUSAND[::-1])}\}}"),
        (rf"\{{{','.join(ROOTS)}\}}", rf"\{{{','.join(ROOTS[::-1])}\}}"),
        (MATRIX, MATRIX.replace("&", " & ")),
        ("9" * 100_000, "9" * 100_000 + ".0"),
        ("9", r"7^{10^{100}} \bmod 13"),
        ("5", "(" * 2000 + "5" + ")" * 2000),
        ("(x+1)^{50}", "(x+1)^{49}(1+x)"),
        ("3^{1000000}", "9^{500000}"),
        ("2^{2^{2^2}}", "65536"),
        (r"\frac{2006!}{2004!}", "2006*2005"),
        (r"\frac{10^{40000}}{10^{39999}}", "10"),
        (r"\sum_{k=1}^{999} \frac{1}{k(k+1)}", r"\frac{999}{1000}"),
        ("3^{1000}+(-1)^{10000000}", "3^{1000}+1"),
        (r"\frac13", "0." + "3" * 5000),
    ],
)
def test_long_answers_that_are_right_are_right(gold: str, answer: str) -> None:
    assert score(gold, answer) == 1.0
    assert score(gold, f"{answer}+1") == 0.0


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("The quick brown fox. " * 5000 + r"\boxed{5}", 1.0),
        ("The quick brown fox. " * 5000 + "The answer is 5.", 1.0),
        ("{" * 100_000 + r"\boxed{5}", 1.0),
        (r"\boxed{" * 14_000 + "5" + "}" * 14_000, 1.0),
        (r"\boxed{5}" * 14_000, 1.0),
        (r"\boxed{" * 14_000, 0.0),
        ("$a$ " * 25_000, 0.0),
        ("$" * 100_000, 0.0),
        (r"\( " * 30_000, 0.0),
        ("answer: " * 12_000, 0.0),
        ("<think>a</think>" * 10_000 + r"\boxed{5}", 1.0),
    ],
)
def test_long_responses_are_read_to_their_end(response: str, expected: float) -> None:
    assert judged("5", response=response).score == expected
