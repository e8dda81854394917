"""Tools that a policy may call between its turns: declared, called, answered in text.

Always holds: a call is answered, with an output or with what was wrong with it, and equal calls
are answered alike and at no great length; or ToolFaultError is raised, since the service behind a
tool gave no answer, which is a fault of ours and of no response. No call lasts longer than its
bound.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from posttrain.data.turn import ANSWER_TOOL, ToolCall
from posttrain.rl.calculator import LONGEST, calculate

if TYPE_CHECKING:
    from sandbox.client import SandboxClient
    from sandbox.schema import TestResult

ToolName = Literal["calculator", "python"]

SANDBOX_URL, SANDBOX_TOKEN = "SANDBOX_URL", "SANDBOX_TOKEN"
"""Environment variables that say where the sandbox is, and what it wants to see."""

MOST_CALLS = 8
"""Calls of one turn that are carried out."""

_LONGEST_ERROR = 300
"""Characters of what a program died of."""

_SECONDS = 5.0
"""CPU time of a program."""

_PATIENCE = 60.0
"""Seconds in which the sandbox is asked again for one program."""


class ToolFaultError(RuntimeError):
    """A tool's service gave no answer: a fault of ours, never of the response."""


class TurnsConfig(BaseModel):
    """The policy may speak `most` times, and in between gets the outputs of the `tools` it called.

    Each training prompt declares them beside its own. `lengths.response` bounds all turns together,
    outputs included. `python` needs a sandbox at SANDBOX_URL.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    most: int = Field(ge=2, le=64)
    tools: tuple[ToolName, ...] = Field(min_length=1)


class Output(NamedTuple):
    """What a call is answered with; an `error` is told to the model, too."""

    text: str
    error: bool = False


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Calculation(_Arguments):
    expression: str = Field(max_length=LONGEST)


class _Program(_Arguments):
    code: str = Field(min_length=1, max_length=20_000)


def _declared(name: str, description: str, argument: str, meaning: str) -> dict[str, Any]:
    schema = {"type": "string", "description": meaning}
    parameters = {"type": "object", "properties": {argument: schema}, "required": [argument]}
    return {"name": name, "description": description, "parameters": parameters}


DECLARED: Mapping[str, Mapping[str, Any]] = {
    "calculator": _declared(
        "calculator", "Compute an arithmetic expression exactly.",
        "expression", "Numbers, brackets and + - * / // % **",
    ),
    "python": _declared(
        "python", "Run a Python program and see what it prints.", "code", "The whole program"
    ),
}  # fmt: skip
"""Each tool as prompts declare it."""


class Toolbox:
    """The tools `named`; `python` has its programs run by the sandbox at `sandbox`.

    To be used in one event loop. ValueError if `python` has no sandbox.
    """

    def __init__(self, named: Sequence[ToolName], sandbox: str | None = None) -> None:
        if "python" in named and not sandbox:
            raise ValueError(
                "the tool python needs a sandbox: start one with `posttrain sandbox serve`, and "
                f"set {SANDBOX_URL} to its http://HOST:PORT"
            )
        self._sandbox = sandbox
        self._client: SandboxClient | None = None
        every: Mapping[str, _Tool] = {"calculator": _calculator, "python": self._python}
        self._tools = {str(name): every[name] for name in named}

    @property
    def names(self) -> frozenset[str]:
        """Those on offer, without the answer tool."""
        return frozenset(self._tools)

    async def answer(self, calls: Sequence[ToolCall]) -> list[Output]:
        """One output for each of the parallel `calls`, in order; ToolFaultError."""
        excess = Output(f"error: at most {MOST_CALLS} calls at once", error=True)
        found = await asyncio.gather(*(self._call(call) for call in calls[:MOST_CALLS]))
        return [*found, *[excess] * len(calls[MOST_CALLS:])]

    async def _call(self, call: ToolCall) -> Output:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join((*self._tools, ANSWER_TOOL))
            return Output(f"error: there is no tool {call.name[:40]!r}; known: {known}", error=True)
        try:
            return await tool(call.arguments)
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            return Output(f"error: {where}: {first['msg']}", error=True)

    async def _python(self, arguments: Any) -> Output:
        from sandbox.client import SandboxRefused, SandboxUnavailable
        from sandbox.schema import UNKNOWN, Limits, StdioSubmission, StdioTest

        program = _Program.model_validate(arguments)
        submission = StdioSubmission(
            id=uuid4().hex, mode="stdio", code=program.code, tests=[StdioTest(expected="")],
            limits=Limits(cpu_s=_SECONDS),
        )  # fmt: skip
        try:
            result = await (await self._opened()).execute(submission)
        except (SandboxUnavailable, SandboxRefused) as fault:
            raise ToolFaultError(f"tool python: {fault}") from None
        run = result.tests[0] if result.tests else result.compilation
        if result.verdict in UNKNOWN or run is None:
            raise ToolFaultError(f"tool python: {result.verdict}: {result.detail}")
        return _printed(run)

    async def _opened(self) -> "SandboxClient":
        from sandbox.client import SandboxClient

        if self._client is None:
            assert self._sandbox is not None
            token = os.environ.get(SANDBOX_TOKEN) or None
            client = SandboxClient(self._sandbox, token, timeout=_PATIENCE, patience=_PATIENCE)
            self._client = await client.__aenter__()
        return self._client

    async def close(self) -> None:
        """Let go of the connections to the services."""
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
            self._client = None


_Tool = Callable[[Any], Awaitable[Output]]


async def _calculator(arguments: Any) -> Output:
    try:
        return Output(calculate(_Calculation.model_validate(arguments).expression))
    except ValidationError:
        raise
    except ValueError as fault:
        return Output(f"error: {fault}", error=True)


_ENDED = {
    "TLE": f"it ran for longer than {_SECONDS:g} s", "MLE": "it used too much memory",
    "OLE": "it printed too much", "CE": "it is no Python program",
}  # fmt: skip


def _printed(run: "TestResult") -> Output:
    """What a program printed, and how it ended unless well; nothing was expected of it."""
    printed = f"{run.stdout}… (cut)" if run.truncated else run.stdout
    if run.verdict in ("OK", "WA"):
        return Output(printed)
    said = run.stderr.strip().splitlines()
    why = _ENDED.get(run.verdict) or (said[-1] if said else f"it ended with {run.exit_code}")
    return Output(f"{printed}error: {why[:_LONGEST_ERROR]}", error=True)
