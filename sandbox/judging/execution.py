"""From a submission to its result: what its tests are, and carrying them out."""

import ast
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from sandbox.judging import verdicts
from sandbox.judging.asserts import BadTest, entry_point, parsed, plain_call
from sandbox.judging.collection import needs_one_process, test_names
from sandbox.judging.inside import codec
from sandbox.judging.inside.names import STANDARD
from sandbox.judging.trials import Call, Judged, Output, Trial
from sandbox.languages import LARGEST_BINARY, Language
from sandbox.schema import (
    AssertSubmission,
    AssertTest,
    CallSubmission,
    PytestSubmission,
    Result,
    StdioSubmission,
    Submission,
    TestResult,
    Verdict,
)
from sandbox.slots import Place, Pool
from sandbox.tiers import Program, SlotLost

T = TypeVar("T")


class Unsupported(Exception):
    """Such a submission cannot be judged here; says why."""


class Executor:
    """Judges submissions on the places of a pool."""

    def __init__(self, pool: Pool, languages: Mapping[str, Language]) -> None:
        self.languages = languages
        self._pool = pool

    async def execute(self, submission: Submission) -> Result:
        """The result; BadTest if the tests are none."""
        return await _Execution(self._pool, self.languages, submission).result()


def modes(language: str) -> list[str]:
    """The modes that a language can be judged in."""
    return ["stdio", "function", "assert", "pytest"] if language == "python" else ["stdio"]


class _Execution:
    """One submission being judged."""

    def __init__(
        self, pool: Pool, languages: Mapping[str, Language], submission: Submission
    ) -> None:
        self._pool = pool
        self._languages = languages
        self._submission = submission
        self._limits = submission.limits.of_program()
        self._queued = 0.0

    async def result(self) -> Result:
        try:
            trials = await self._trials()
        except Unsupported as why:
            return self._without_tests("UNSUPPORTED", None, str(why))
        except SlotLost as lost:
            return self._without_tests("IE", None, f"{lost.reason}: {lost}")
        if isinstance(trials, TestResult):
            return self._without_tests("CE", trials, None)
        tests = await self._carried_out(trials)
        return verdicts.summed(
            self._submission.id, self._pool.tier.name, tests, len(trials), self._queued
        )

    def _without_tests(
        self, verdict: Verdict, compilation: TestResult | None, detail: str | None
    ) -> Result:
        return Result(
            id=self._submission.id, verdict=verdict, reward=0 if verdict == "CE" else None,
            retryable=verdict == "IE", tier=self._pool.tier.name, compilation=compilation,
            detail=detail, total=0, queue_s=round(self._queued, 4),
        )  # fmt: skip

    async def _trials(self) -> Sequence[Trial] | TestResult:
        """The tests, or how compiling failed."""
        submission = self._submission
        language = self._languages.get(submission.language)
        if language is None:
            known = ", ".join(self._languages)
            raise Unsupported(f"no language {submission.language!r}; there are {known}")
        if submission.mode not in modes(submission.language):
            raise Unsupported(f"{submission.language} is judged by its output only")
        if isinstance(submission, StdioSubmission):
            return await self._outputs(submission, language)
        if isinstance(submission, CallSubmission):
            return self._calls(submission)
        if isinstance(submission, AssertSubmission):
            return self._asserts(submission)
        return self._pytests(submission)

    async def _outputs(
        self, submission: StdioSubmission, language: Language
    ) -> Sequence[Trial] | TestResult:
        compilation = language.compilation(submission.code)
        binary = None
        if compilation is not None:
            made = await self._timed(1, partial(_compiled, compilation))
            if isinstance(made, TestResult):
                return made
            binary = made
        program = language.program(submission.code, binary, self._limits)
        return [
            Output(test.id or str(at), program, test, submission.checker)
            for at, test in enumerate(submission.tests, 1)
        ]

    def _calls(self, submission: CallSubmission) -> Sequence[Trial]:
        return [
            Call(
                test.id or str(at), submission.code, self._limits, submission.function,
                _trees(test.args), _tree(test.expected), "json", submission.checker,
            )
            for at, test in enumerate(submission.tests, 1)
        ]  # fmt: skip

    def _asserts(self, submission: AssertSubmission) -> Sequence[Trial]:
        parsed(submission.setup, "`setup`")
        trees = [
            parsed(test.code, f"test {test.id or at}")
            for at, test in enumerate(submission.tests, 1)
        ]
        main = submission.entry_point or entry_point(trees)
        return [
            self._assert(test.id or str(at), test, tree, main)
            for at, (test, tree) in enumerate(zip(submission.tests, trees, strict=True), 1)
        ]

    def _assert(self, name: str, test: AssertTest, tree: ast.Module, main: str | None) -> Trial:
        assert isinstance(self._submission, AssertSubmission)
        code = self._submission.code
        call = plain_call(tree)
        if call is not None and (call.function == main or call.function not in STANDARD):
            return Call(name, code, self._limits, call.function, call.args, call.expected, "python")
        begin = {"kind": "assert", "entry_point": main}
        return Judged(name, code, self._limits, f"{self._submission.setup}\n{test.code}", begin)

    def _pytests(self, submission: PytestSubmission) -> Sequence[Trial]:
        trials: list[Trial] = []
        for file, source in submission.files.items():
            names = test_names(source, file)
            if (needed := needs_one_process(source, file)) is not None:
                raise Unsupported(f"{file} uses {needed}, so needs the program in its own process")
            for name in names:
                begin = {"kind": "pytest", "test": name}
                label = f"{file}::{name}"
                trials.append(Judged(label, submission.code, self._limits, source, begin))
        return trials

    async def _carried_out(self, trials: Sequence[Trial]) -> Sequence[TestResult]:
        if not self._submission.stop_on_fail:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._test(trial)) for trial in trials]
            return [task.result() for task in tasks]
        tests: list[TestResult] = []
        for trial in trials:
            tests.append(await self._test(trial))
            if tests[-1].verdict != "OK":
                break
        return tests

    async def _test(self, trial: Trial) -> TestResult:
        try:
            result = await self._timed(trial.places, trial.attempt)
            if verdicts.deserves_rerun(result, self._limits):
                result = await self._timed(self._pool.size, trial.attempt)
                return result.model_copy(update={"reruns": 1})
        except SlotLost as lost:
            return TestResult(id=trial.name, verdict="IE", detail=f"{lost.reason}: {lost}")
        return result

    async def _timed(self, count: int, job: Callable[[Sequence[Place]], Awaitable[T]]) -> T:
        """As `Pool.use`, noting how long it waited."""
        asked = time.monotonic()

        async def noted(places: Sequence[Place]) -> T:
            self._queued = max(self._queued, time.monotonic() - asked)
            return await job(places)

        return await self._pool.use(count, noted)


async def _compiled(program: Program, places: Sequence[Place]) -> bytes | TestResult:
    """The binary, or how compiling failed."""
    run = await places[0].run(program)
    ended = verdicts.of_ending(run)
    binary = run.kept.get(program.keep[0])
    if ended is not None:
        why = ended.detail
    elif binary is None:
        why = "the compiler leaves no program"
    elif len(binary) > LARGEST_BINARY:
        why = f"the compiled program is larger than {LARGEST_BINARY} bytes"
    else:
        return binary
    return verdicts.result("compilation", verdicts.Finding("CE", why), run)


def _trees(values: Sequence[object]) -> list[object]:
    return [_tree(value) for value in values]


def _tree(value: object) -> object:
    try:
        return codec.encode(value)
    except codec.Refused as refusal:
        raise BadTest(f"a value of a test is {refusal}") from None
