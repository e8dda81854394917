"""The code verifier against a real sandbox: what is a program, what are tests, what is a score."""

import asyncio
import base64
import json
import pickle
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.schema import Item, Verdict
from rewards.verifiers import Unavailable
from rewards.verifiers.code import CANARIES, connected
from rewards.verifiers.code.extraction import NoProgram, program
from sandbox.client import SandboxClient, SandboxUnavailable
from sandbox.schema import Result, Submission
from tests.rewards.service import serving as serving_rewards
from tests.sandbox.service import Service, serving

CASES = Path(__file__).parent / "cases" / "code.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text().splitlines()]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A sandbox of two slots."""
    with serving(tmp_path_factory.mktemp("sandbox"), "--slots", "2") as running:
        yield running


Verify = Callable[..., Verdict]


@pytest.fixture
def verify(sandbox: Service, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """The verdict on a response, as the service asks for it."""
    monkeypatch.setenv("SANDBOX_URL", sandbox.url)

    def check(response: str | None, gold: Any, **parameters: Any) -> Verdict:
        answers: list[str] | None = [] if response is None else None
        item = Item(
            id="i", verifier="code", response=response, answers=answers, gold=gold,
            parameters=parameters,
        )  # fmt: skip
        return asyncio.run(one(item))

    return check


async def one(item: Item) -> Verdict:
    async with connected() as ask:
        return await ask(item)


def fenced(code: str, tag: str = "python") -> str:
    return f"Here it is:\n```{tag}\n{code}\n```\nDone."


def written_out(row: dict[str, Any]) -> Any:
    """Written out, where the corpus has an expression for a long output."""
    tests = dict(row["tests"])
    if tests.pop("outputs_expr", None):
        tests["outputs"] = ["".join(f"{number}\n" for number in range(100_000))]
    return tests


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_corpus(verify: Verify, row: dict[str, Any]) -> None:
    """A label of 0 says that nothing is earned, which an abstention fulfils."""
    response = row["response"] if "response" in row else fenced(row["program"])
    settings = {"time_limit_s": row["time_limit_s"], "checker": row["checker"]}
    verdict = verify(response, written_out(row), **settings)
    assert (verdict.score or 0) == row["expected"], (row["note"], verdict)
    if row["expected"] or "empty-tests" not in row["tags"]:
        assert verdict.status == "scored"


ADD = "def add(a, b):\n    return a + b"
SUM = "print(sum(map(int, input().split())))"
HUMAN_EVAL = (
    "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(0, 0) == 0"
)
KOD = "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
FORMATS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "APPS": (SUM, {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}, {}),
    "APPS lines": (SUM, {"inputs": [["1 2"]], "outputs": [["3"]]}, {}),
    "open-instruct": (SUM, [{"input": "1 2", "output": "3"}], {}),
    "open-instruct text": (SUM, json.dumps([{"input": "1 2", "output": "3"}]), {}),
    "APPS calls": (ADD, {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}, {}),
    "TACO calls": (
        ADD, {"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}, {"wrapped_outputs": True},
    ),
    "LCB calls": (ADD, {"fn_name": "add", "inputs": ["1\n2"], "outputs": ["3"]}, {}),
    "MBPP": (ADD, {"test_list": ["assert add(1, 2) == 3"], "test_setup_code": "x = 1"}, {}),
    "AceCoder": (ADD, ["assert add(1, 2) == 3", "assert abs(add(1, 2) - 3) < 1e-9"], {}),
    "HumanEval": (ADD, {"entry_point": "add", "test": HUMAN_EVAL}, {}),
    "KodCode": (ADD, {"test": KOD}, {}),
    "KodCode text": (ADD, KOD, {}),
    "files": (ADD, {"files": {"test_a.py": KOD, "test_b.py": KOD}}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_public_formats(verify: Verify, name: str) -> None:
    code, gold, settings = FORMATS[name]
    assert verify(fenced(code), gold, **settings).score == 1.0
    wrong = verify(fenced(code.replace("+", "-").replace("sum", "max")), gold, **settings)
    assert (wrong.status, wrong.score, wrong.reason) == ("scored", 0.0, "wrong_answer")


PACKED = base64.b64encode(zlib.compress(pickle.dumps(json.dumps([])))).decode()


@pytest.mark.parametrize(
    "gold",
    [
        None, 5, "", [], {}, "[]", "{}", '"x"', "print(1)", PACKED, {"inputs": [], "outputs": []},
        {"inputs": ["1"], "outputs": []}, {"inputs": [5], "outputs": ["5"]},
        {"inputs": ["1"], "outputs": [None]}, [{"input": "1"}], [{"input": "1", "output": None}],
        {"fn_name": "f", "inputs": [], "outputs": []},
        {"fn_name": "f", "inputs": [5], "outputs": [5]},
        {"fn_name": "f", "inputs": ["[1]"], "outputs": [5]}, {"asserts": []}, {"asserts": [""]},
        {"fn_name": "f", "inputs": ["[1"], "outputs": ["5"]}, {"test": "def helper(): pass"},
        {"fn_name": "", "inputs": [[1]], "outputs": [5]}, {"asserts": ["assert f( == 1"]},
        {"files": {}}, {"asserts": ["assert f() == 1"], "extra": 1},
    ],
)  # fmt: skip
def test_gold_without_tests_is_no_score(verify: Verify, gold: Any) -> None:
    verdict = verify(fenced("def f(*x): return 1\nprint(5)"), gold)
    assert (verdict.status, verdict.reason) == ("abstained", "bad_gold"), verdict


def test_packed_tests_are_never_unpickled(verify: Verify, tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"

    class Bomb:
        def __reduce__(self) -> Any:
            return open, (str(mark), "w")

    packed = base64.b64encode(zlib.compress(pickle.dumps(Bomb()))).decode()
    for gold in (packed, {"inputs": packed}, [packed], {"test": packed, "entry_point": "f"}):
        assert verify(fenced("x = 1"), gold).status == "abstained"
    assert not mark.exists()


@pytest.mark.parametrize(
    "settings",
    [{"time_limit_s": 0}, {"mode": "some"}, {"unknown": 1}, {"checker": {"type": "fuzzy"}}],
)
def test_unknown_parameters_are_no_score(verify: Verify, settings: dict[str, Any]) -> None:
    verdict = verify(fenced(SUM), FORMATS["APPS"][1], **settings)
    assert (verdict.status, verdict.reason) == ("abstained", "bad_item")
    assert next(iter(settings)) in (verdict.detail or "")


@pytest.mark.parametrize(
    ("gold", "detail"),
    [
        (None, "gold is missing"), (5, "gold is the number 5; write it as text"),
        ({"test": "abc", "entry_point": "f"}, "test defines no function `check`"),
        ([{"input": 1, "output": "1"}], "gold.0.input: Input should be a valid string"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_gold_is_named(verify: Verify, gold: Any, detail: str) -> None:
    assert verify(fenced(SUM), gold).detail == detail


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "start one with `posttrain sandbox serve`"),
        ("8091", "SANDBOX_URL: '8091' is no URL of a sandbox; give http://HOST:PORT"),
    ],
)
def test_a_missing_or_wrong_url_is_told(
    monkeypatch: pytest.MonkeyPatch, url: str, says: str
) -> None:
    monkeypatch.setenv("SANDBOX_URL", url)
    with pytest.raises(ValueError, match=re.escape(says)):
        asyncio.run(one(CANARIES[0].item))


def test_a_canary_is_judged_anew_and_an_outage_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: the sandbox remembered the canary, whatever had become of its tiers."""
    names = []

    async def execute(self: SandboxClient, submission: Submission) -> Result:
        names.append(submission.id)
        raise SandboxUnavailable("unreachable", f"{self._patience:g} s")

    async def ask() -> None:
        for probing, patience in ((False, "30 s"), (True, "2 s")):
            async with connected(probing=probing) as verify:
                for _ in range(2):
                    with pytest.raises(Unavailable, match=patience):
                        await verify(CANARIES[0].item)

    monkeypatch.setattr(SandboxClient, "execute", execute)
    monkeypatch.setenv("SANDBOX_URL", "http://127.0.0.1:1")
    asyncio.run(ask())
    assert (len(set(names[:2])), len(set(names[2:]))) == (1, 2)


def test_an_item_needs_a_response(verify: Verify) -> None:
    assert verify(None, FORMATS["APPS"][1]).reason == "bad_item"


def test_what_cannot_be_judged_is_no_score(verify: Verify) -> None:
    gold = {"test": "from solution import add\ndef test_a(monkeypatch):\n    assert add(1, 2) == 3"}
    verdict = verify(fenced(ADD), gold)
    assert (verdict.status, verdict.reason) == ("abstained", "unsupported")
    assert verify(fenced("x", "cobol"), [["1", "2"]], language="cobol").status == "abstained"


FEEDBACK = {
    "wrong_answer": ("print(input())", "test 2 of 3: wrong answer"),
    "runtime_error": ("print(3 if input() == '3' else 1 // 0)",
                      "test 2 of 3: runtime error: ZeroDivisionError: integer division or modulo "
                      "by zero"),
    "time_limit": ("x = input()\nwhile x != '3': pass\nprint(3)",
                   "test 2 of 3: time limit exceeded"),
    "output_limit": ("x = input()\nwhile x != '3': print('x' * 10000)\nprint(3)",
                     "test 2 of 3: output limit exceeded"),
    "memory_limit": ("x = input()\ny = [bytearray(2**20) for _ in range(x != '3' and 10**6)]\n"
                     "print(3)", "test 2 of 3: memory limit exceeded"),
}  # fmt: skip


@pytest.mark.parametrize("reason", FEEDBACK)
def test_feedback_is_a_line_on_the_first_failure(verify: Verify, reason: str) -> None:
    code, told = FEEDBACK[reason]
    gold = {"inputs": ["3", "SECRET-IN", "3"], "outputs": ["3", "SECRET-OUT", "SECRET-OUT"]}
    verdict = verify(fenced(code), gold, time_limit_s=1, memory_mb=64)
    assert (verdict.score, verdict.reason, verdict.feedback) == (0.0, reason, told)


def test_feedback_on_a_program_that_does_not_compile(verify: Verify) -> None:
    verdict = verify(fenced("int main( {", "c"), FORMATS["APPS"][1], language="c")
    assert (verdict.score, verdict.reason) == (0.0, "compile_error")
    assert (verdict.feedback or "").startswith("the program does not compile")
    assert "\n" not in (verdict.feedback or "")


def test_a_test_nobody_can_judge_is_no_part_of_a_fraction(verify: Verify) -> None:
    gold = "from solution import f\n\ndef test_a():\n    assert f() == 1\n\n"
    gold += "def test_b(tmp_path):\n    assert f() == 1\n"
    verdict = verify(fenced("def f():\n    return 1"), gold, mode="fraction")
    assert (verdict.status, verdict.reason) == ("abstained", "unsupported")


def test_the_fraction_of_tests_passed(verify: Verify) -> None:
    gold = {"inputs": ["1", "2", "3", "4"], "outputs": ["1", "2", "0", "4"]}
    verdict = verify(fenced("print(input())"), gold, mode="fraction")
    assert (verdict.score, verdict.parts) == (0.75, {"passed": 0.75})
    assert verdict.feedback == "test 3 of 4: wrong answer"
    assert verify(fenced("print(input())"), gold).score == 0.0
    assert verify(fenced("x = ("), gold, mode="fraction").score == 0.0


def test_a_tolerance_must_be_declared(verify: Verify) -> None:
    gold = {"fn_name": "f", "inputs": [[1]], "outputs": [0.3]}
    code = fenced("def f(x): return 0.1 + 0.2")
    assert verify(code, gold).score == 0.0
    assert verify(code, gold, checker={"type": "float", "abs": 1e-9}).score == 1.0


@pytest.mark.parametrize("sign", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_newline_ends_a_line_of_the_program(sign: str) -> None:
    code = f"print('a{sign}b')\n"
    assert program(f"```python\n{code}```", "python") == code
    assert program(f"```python\r\n{code}\r\n```\r\n".replace("\n\r", "\r"), "python") == code


BLOCK = "```python\nprint(1)\n```"


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (BLOCK, "print(1)\n"),
        ("```py\nx\n```\n```Python3\ny\n```", "y\n"),
        ("```\nx\n```", "x\n"),
        ("~~~python\nx\n```\ny\n~~~", "x\n```\ny\n"),
        ("````python\n```\nx\n````", "```\nx\n"),
        ('```python title="a.py"\nx\n```', "x\n"),
        ("```{.python}\nx\n```", "x\n"),
        ("1. So:\n   ```python\n   if x:\n       y\n   ```", "if x:\n    y\n"),
        (f"{BLOCK}\n```text\nout\n```\n```\n1\n```", "print(1)\n"),
        (f"{BLOCK}\n```cpp\nint x;\n```", "print(1)\n"),
        ("```python\r\nx\r\n```\r\n", "x\n"),
        (f"<|inner_prefix|>```python\nbad\n```<|inner_suffix|>{BLOCK}", "print(1)\n"),
        (f"<think>{BLOCK}</think>```python\ny\n```", "y\n"),
        ("```python\n```", "\n"),
    ],
)
def test_extraction(response: str, code: str) -> None:
    assert program(response, "python") == code


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "no_code"), ("print(1)", "no_code"), ("```cpp\nint x;\n```", "no_code"),
        ("`print(1)`", "no_code"), ("```python print(1)```", "no_code"),
        (f"<think>{BLOCK}</think>none", "no_code"), (f"<|inner_prefix|>{BLOCK}", "no_code"),
        ("```python\nprint(1)", "truncated"), (f"{BLOCK}\n```python\nprint(", "truncated"),
    ],
)  # fmt: skip
def test_no_program(response: str, reason: str) -> None:
    with pytest.raises(NoProgram) as caught:
        program(response, "python")
    assert caught.value.reason == reason


@given(st.lists(st.sampled_from(["```", "```python", "~~~", "x", "<think>", "</think>", ""])))
def test_extraction_never_raises_anything_else(lines: list[str]) -> None:
    with suppress(NoProgram):
        assert program("\n".join(lines), "python").endswith("\n")


def test_other_languages_by_their_tags(verify: Verify) -> None:
    code = "#include <iostream>\nint main(){int a, b; std::cin >> a >> b; std::cout << a + b;}"
    for tag in ("cpp", "C++", "cc"):
        verdict = verify(fenced(code, tag), FORMATS["APPS"][1], language="cpp")
        assert verdict.score == 1.0
    assert verify(fenced(code, "c"), FORMATS["APPS"][1], language="cpp").reason == "no_code"


def test_the_whole_response_may_be_the_program(verify: Verify) -> None:
    assert verify(SUM, FORMATS["APPS"][1], extract="whole").score == 1.0
    assert verify(SUM, FORMATS["APPS"][1]).reason == "no_code"


def test_canaries(verify: Verify) -> None:
    for canary in CANARIES:
        assert canary.passes(asyncio.run(one(canary.item)))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Awaitable[Verdict]]:
    """Asks a sandbox at a given address, without patience."""
    monkeypatch.setattr("rewards.verifiers.code.PATIENCE", 0.2)

    async def ask(url: str) -> Verdict:
        monkeypatch.setenv("SANDBOX_URL", url)
        return await one(CANARIES[0].item)

    return ask


def test_no_sandbox_is_no_score(impatient: Callable[[str], Awaitable[Verdict]]) -> None:
    with pytest.raises(Unavailable) as caught:
        asyncio.run(impatient("http://127.0.0.1:9"))  # type: ignore[arg-type]
    assert caught.value.reason == "sandbox_unreachable"


def test_a_sandbox_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SANDBOX_URL", raising=False)
    with pytest.raises(ValueError, match="SANDBOX_URL"):
        asyncio.run(one(CANARIES[0].item))


def test_the_reward_service_scores_programs(sandbox: Service, tmp_path: Path) -> None:
    env = {"SANDBOX_URL": sandbox.url}
    with serving_rewards(tmp_path, "--verifiers", "code", env=env) as rewards:
        right, wrong = (canary.item.model_dump(exclude_none=True) for canary in CANARIES)
        assert [verdict["score"] for verdict in rewards.score(right, wrong)] == [1.0, 0.0]
