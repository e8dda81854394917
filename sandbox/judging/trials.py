"""One test each: what is run for it in how many places, and what that says about the program."""

import asyncio
import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.judging import bundle
from sandbox.judging.exchange import Question, Relay
from sandbox.judging.inside import codec
from sandbox.judging.output import agrees
from sandbox.judging.values import Rule, equal
from sandbox.judging.verdicts import OK, WRONG, Finding, of_ending, result
from sandbox.schema import Checker, StdioTest, TestResult
from sandbox.slots import Place
from sandbox.tiers import Limits, Program, Run

_MARGIN = 2.0
"""Seconds that tests have on top of the program's, so that the program's time ends first."""

_MUCH = 2**20
"""Bytes of a program's that tests can be expected to work with."""


class Trial(Protocol):
    """A test of one submission."""

    @property
    def name(self) -> str:
        """Its id in the result."""
        ...

    @property
    def places(self) -> int:
        """How many places it needs at once."""
        ...

    async def attempt(self, places: Sequence[Place]) -> TestResult:
        """Carry it out; SlotLost if a slot broke."""
        ...


@dataclass(frozen=True)
class Output:
    """The program reads, prints and ends well; its output is compared here."""

    name: str
    program: Program
    test: StdioTest
    checker: Checker
    places: int = 1

    async def attempt(self, places: Sequence[Place]) -> TestResult:
        """Run the program on its input."""
        program = dataclasses.replace(self.program, stdin=self.test.stdin.encode())
        run = await places[0].run(program)
        finding = of_ending(run)
        if finding is None:
            right = agrees(self.checker, self.test.expected, run.stdout)
            finding = OK if right else WRONG
        return result(self.name, finding, run)


@dataclass(frozen=True)
class Call:
    """A function of the program returns a value, which is compared here; `args` are trees."""

    name: str
    code: str
    limits: Limits
    function: str
    args: Sequence[Any]
    expected: Any
    rule: Rule
    checker: Checker | None = None
    places: int = 1

    async def attempt(self, places: Sequence[Place]) -> TestResult:
        """Ask for the value."""
        request = {
            "do": "call", "of": self.function, "args": list(self.args), "kw": {}, "data": True,
        }  # fmt: skip
        question = Question(request)
        run = await places[0].run(bundle.harness(self.code, self.limits), question.talk)
        return result(self.name, self._finding(question, run), run)

    def _finding(self, question: Question, run: Run) -> Finding:
        if question.answer is not None:
            return self._of_answer(question.answer)
        if question.refusal is not None:
            return Finding("OLE" if question.refusal == "too large" else "RE", question.refusal)
        return of_ending(run) or Finding("RE", "ended without returning")

    def _of_answer(self, answer: Mapping[str, Any]) -> Finding:
        if "absent" in answer:
            return Finding("RE", f"the program does not define {self.function}")
        if "refused" in answer:
            return Finding("WA", f"what was returned is {answer['refused']}"[:300])
        if "value" not in answer:
            return Finding("RE", _raised(answer))
        try:
            got = codec.checked(answer["value"])
        except codec.Refused as refusal:
            return Finding("WA", f"what was returned is {refusal}")
        return OK if equal(self.expected, got, self.rule, self.checker) else WRONG


def _raised(answer: Mapping[str, Any]) -> str:
    """What an answer says of an exception; a claim, so it may say anything or be of any shape."""
    try:
        told = answer["raised"]
        return f"{told['object'][3][1]}: {told['text']}"[:300]
    except (KeyError, TypeError, IndexError):
        return "raised" if "raised" in answer else str(answer.get("refused", "no answer"))[:300]


@dataclass(frozen=True)
class Judged:
    """Tests run in a box of their own, beside the program in another."""

    name: str
    code: str
    limits: Limits
    tests: str
    begin: Mapping[str, Any]
    places: int = 2

    async def attempt(self, places: Sequence[Place]) -> TestResult:
        """Run both, connected, until the tests have ended."""
        nonce = secrets.token_hex(16)
        relay = Relay({**self.begin, "nonce": nonce})
        longer = dataclasses.replace(self.limits, wall=self.limits.wall + _MARGIN)
        tests = places[0].run(bundle.judge(self.tests, longer), relay.with_tests)
        program = places[1].run(bundle.harness(self.code, self.limits), relay.with_program)
        judged, run = await _both(tests, program, relay)
        record = _record(relay, judged, nonce)
        if record is None:
            return result(self.name, _without_record(judged, run, relay.taken), run)
        return result(self.name, _of_record(record, run), run)


async def _both(tests: Any, program: Any, relay: Relay) -> tuple[Run, Run]:
    judging = asyncio.ensure_future(tests)
    running = asyncio.ensure_future(program)
    running.add_done_callback(lambda _: relay.program_ended())
    try:
        judged = await judging
        relay.tests_ended()
        return judged, await running
    finally:
        judging.cancel()
        running.cancel()
        await asyncio.gather(judging, running, return_exceptions=True)


def _record(relay: Relay, judged: Run, nonce: str) -> Mapping[str, Any] | None:
    """What the tests say became of them: believed from their own box alone, with exit code 0."""
    with suppress(codec.Refused):
        record = codec.parse(relay.record or b"")
        if isinstance(record, dict) and record.get("nonce") == nonce and of_ending(judged) is None:
            return record
    return None


def _without_record(judged: Run, run: Run, taken: int) -> Finding:
    """Of tests that told nothing: the program's own end; or theirs, by all that it sent them."""
    ended = None if run.ending == "signalled" else of_ending(run)
    overwhelmed = of_ending(judged) if judged.ending != "signalled" and taken > _MUCH else None
    return ended or overwhelmed or Finding("UNSUPPORTED", "the tests ended without a record")


def _of_record(record: Mapping[str, Any], run: Run) -> Finding:
    what, detail = record["outcome"], record.get("detail") or None
    if what == "passed":
        return OK
    if what == "failed":
        return WRONG
    if what == "error":
        return Finding("WA", f"the test cannot work with what it got: {detail}")
    if what == "absent":
        return Finding("RE", f"the program does not define {detail}")
    if what == "raised":
        return Finding("RE", detail)
    if what == "gone":
        ended = None if run.ending == "signalled" else of_ending(run)
        return ended or Finding("RE", "the program ended during the test")
    return Finding("UNSUPPORTED", detail or "the test was skipped")
