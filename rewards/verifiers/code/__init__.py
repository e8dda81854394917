"""Programs judged by tests, in the sandbox service; gold as in suites.py, extraction.py says what
of a response is the program.

By default a score is 1 if every test of a non-empty suite passes, else 0; with `mode: fraction` it
is the share of tests passed. Abstains where the tests cannot be carried out, and is unavailable
where the sandbox is: neither is a score. Settings: SANDBOX_URL, and SANDBOX_TOKEN if it wants one.

Parameters: `language`, `time_limit_s` (CPU time a test; see `Limits` of the sandbox),
`memory_mb`, `checker` (as the sandbox's, e.g. {"type": "float", "abs": 1e-9}; calls are compared
by value, or with `float`), `mode`, `extract` (`whole` takes the response as it is for the program),
`wrapped_outputs` (each expected value of a call stands in a list of one, as in TACO).
"""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rewards.schema import Item, Verdict, abstained, scored
from rewards.verifiers import Canary, Unavailable
from rewards.verifiers.code.extraction import NoProgram, program
from rewards.verifiers.code.suites import GOLD, BadGold, suite
from rewards.verifiers.problem import gold_problem, problem
from sandbox.client import SandboxClient, SandboxRefused, SandboxUnavailable
from sandbox.schema import Checker, Limits, Result, Submission, TestResult
from sandbox.version import version

__all__ = ["CANARIES", "DISTRIBUTIONS", "GOLD", "PARAMETERS", "RUNS", "SERVICES", "connected"]

RUNS = "remote"
DISTRIBUTIONS = ("aiohttp", "pydantic")
SERVICES = (version(),)
"""The version of the sandbox; its client takes no result of a service of another."""

PATIENCE = 30.0
"""Seconds in which a sandbox that is out of reach or full is asked again."""

PROBING_PATIENCE = 2.0
"""The same for canaries."""

DEADLINE = 600.0
"""Seconds an item may take: many tests, each bounded by the sandbox from its start."""

_SUBMISSION: TypeAdapter[Submission] = TypeAdapter(Submission)
_TOLD: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "WA": ("wrong_answer", "wrong answer"),
        "RE": ("runtime_error", "runtime error"),
        "TLE": ("time_limit", "time limit exceeded"),
        "MLE": ("memory_limit", "memory limit exceeded"),
        "OLE": ("output_limit", "output limit exceeded"),
        "CE": ("compile_error", "the program does not compile"),
    }
)


class Parameters(BaseModel):
    """What an item may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    language: str = "python"
    time_limit_s: float = Field(default=10.0, gt=0, le=120)
    memory_mb: int = Field(default=512, ge=16, le=16384)
    checker: Checker = Checker()
    mode: Literal["all", "fraction"] = "all"
    extract: Literal["fence", "whole"] = "fence"
    wrapped_outputs: bool = False


PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)


@asynccontextmanager
async def connected(
    *, probing: bool = False
) -> AsyncIterator[Callable[[Item], Awaitable[Verdict]]]:
    """The sandbox of the environment's settings; ValueError if none is named.

    `probing`: a sandbox out of reach is told soon, and none answers from memory.
    """
    url, token = _sandbox(os.environ.get("SANDBOX_URL")), os.environ.get("SANDBOX_TOKEN") or None
    patience = PROBING_PATIENCE if probing else PATIENCE
    async with SandboxClient(url, token, patience=patience) as client:

        async def verify(item: Item) -> Verdict:
            return await judged(item, client, fresh=probing)

        yield verify


def _sandbox(url: str | None) -> str:
    if not url:
        raise ValueError(
            "code runs in a sandbox: start one with `posttrain sandbox serve`, and set SANDBOX_URL "
            "to where it serves"
        )
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"SANDBOX_URL: {url!r} is no URL of a sandbox; give http://HOST:PORT")
    return url


async def judged(item: Item, client: SandboxClient, *, fresh: bool = False) -> Verdict:
    """The verdict on `item`; Unavailable if the sandbox gives no result.

    If `fresh`, it is judged again though the sandbox remember it.
    """
    if item.response is None:
        return abstained(item, "bad_item", "give `response`")
    try:
        parameters = PARAMETERS.validate_python(item.parameters)
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault, Parameters.model_fields))
    try:
        gold = GOLD.validate_python(item.gold)
    except ValidationError as fault:
        return abstained(item, "bad_gold", gold_problem(fault, item.gold, union=True))
    try:
        tests = suite(gold, parameters.wrapped_outputs)
        submission = _submission(_code(item.response, parameters), parameters, tests)
    except NoProgram as fault:
        return scored(item, 0.0, fault.reason, feedback=str(fault))
    except ValidationError as fault:
        return abstained(item, "bad_gold", problem(fault))
    except BadGold as fault:
        return abstained(item, "bad_gold", str(fault))
    if fresh:
        submission = submission.model_copy(update={"id": uuid4().hex})
    try:
        result = await client.execute(submission)
    except SandboxRefused as fault:
        return abstained(item, "bad_gold", str(fault))
    except SandboxUnavailable as fault:
        raise Unavailable(f"sandbox_{fault.reason}", str(fault)) from None
    return _verdict(item, result, parameters.mode)


def _code(response: str, parameters: Parameters) -> str:
    whole = parameters.extract == "whole"
    return response if whole else program(response, parameters.language)


def _submission(code: str, parameters: Parameters, tests: Mapping[str, Any]) -> Submission:
    content = {
        **tests, "language": parameters.language, "code": code,
        "limits": Limits(cpu_s=parameters.time_limit_s, memory_mb=parameters.memory_mb),
        "stop_on_fail": parameters.mode == "all",
    }  # fmt: skip
    if tests["mode"] == "stdio" or (
        tests["mode"] == "function" and parameters.checker.type == "float"
    ):
        content["checker"] = parameters.checker
    draft = _SUBMISSION.validate_python({**content, "id": "-"})
    # The same program with the same tests is judged once, whoever asks.
    digest = hashlib.sha256(draft.model_dump_json().encode()).hexdigest()
    return draft.model_copy(update={"id": digest})


def _verdict(item: Item, result: Result, mode: str) -> Verdict:
    if result.reward == 1:
        return scored(item, 1.0)
    if result.reward is None:
        return abstained(item, "unsupported", result.detail or _unsupported(result))
    reason, _ = _TOLD[result.verdict]
    if mode == "all" or not result.tests:
        return scored(item, 0.0, reason, feedback=_feedback(result))
    if any(test.verdict == "UNSUPPORTED" for test in result.tests):
        return abstained(item, "unsupported", _unsupported(result))
    passed = sum(test.verdict == "OK" for test in result.tests) / result.total
    return scored(item, passed, reason, parts={"passed": passed}, feedback=_feedback(result))


def _unsupported(result: Result) -> str:
    return next((test.detail or "" for test in result.tests if test.verdict == "UNSUPPORTED"), "")


def _feedback(result: Result) -> str:
    """The first failure in one line; what was expected is not known there."""
    if result.verdict == "CE":
        return f"{_TOLD['CE'][1]}{_last_line(result.compilation)}"
    at, test = next(
        (at, test)
        for at, test in enumerate(result.tests, 1)
        if test.verdict not in ("OK", "UNSUPPORTED")
    )
    told = f"test {at} of {result.total}: {_TOLD[test.verdict][1]}"
    return told + (_last_line(test) if test.verdict == "RE" else "")


def _last_line(test: TestResult | None) -> str:
    """What the program, or its compiler, said last."""
    lines = [] if test is None else (test.stderr.strip() or test.detail or "").splitlines()
    return f": {' '.join(lines[-1].split())[:200]}" if lines else ""


def _canary(name: str, answer: int, score: float) -> Canary:
    response = f"```python\nprint({answer})\n```"
    item = Item(id=name, verifier="code", response=response, gold=[{"input": "", "output": "4"}])
    return Canary(item=item, score=score)


CANARIES = [_canary("right", 4, 1.0), _canary("wrong", 5, 0.0)]
