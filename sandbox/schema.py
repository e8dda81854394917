"""What travels: a program with its tests, and what became of them.

A reward is 1 only if there are tests and each is OK. Where nothing is known about the program (IE,
UNSUPPORTED) it is null: our fault or our limit is never a score. A test without an expectation is
refused, so nothing passes for want of one.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import from_json

from sandbox import tiers

MOST_TESTS = 1024
_MIB = 2**20

Verdict = Literal["OK", "WA", "RE", "TLE", "MLE", "OLE", "CE", "UNSUPPORTED", "IE"]
"""Passed; wrong answer; ended badly; over its time, memory or output; does not compile; cannot be
judged here; our fault, worth another try."""

UNKNOWN: Sequence[Verdict] = ("IE", "UNSUPPORTED")
"""Verdicts that say nothing about the program."""


class Wire(BaseModel):
    """Strict JSON: unknown keys and silent conversions are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Limits(Wire):
    """Bounds of one run of the program; its clock starts when it starts, not in the queue.

    `cpu_s` is the time limit that matters; `wall_s`, by default three times that and a second, ends
    what sleeps, and leaves room for a loaded machine.
    """

    cpu_s: float = Field(default=10.0, gt=0, le=120)
    wall_s: float | None = Field(default=None, gt=0, le=300)
    memory_mb: int = Field(default=512, ge=16, le=16384)
    processes: int = Field(default=64, ge=1, le=1024)
    output_kb: int = Field(default=4096, ge=1, le=65536)
    file_mb: int = Field(default=64, ge=1, le=1024)

    def of_program(self) -> tiers.Limits:
        """The same in the units of a tier."""
        return tiers.Limits(
            wall=3 * self.cpu_s + 1 if self.wall_s is None else self.wall_s,
            cpu=self.cpu_s, memory=self.memory_mb * _MIB, processes=self.processes,
            output=self.output_kb * 1024, files=self.file_mb * _MIB,
        )  # fmt: skip


class Checker(Wire):
    """How output is compared.

    `tokens`: separated by white space, equal as text or as decimal numbers. `lines`: the same
    number of lines once the whole and each line are stripped, each equal as text or number by
    number. `exact`: equal but for line ends at the end. `float`: as `tokens`, numbers within
    `abs` or `rel` of the expected ones; in calls, the same for floats at any depth.
    """

    type: Literal["tokens", "lines", "exact", "float"] = "tokens"
    abs: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    rel: float = Field(default=1e-6, ge=0, allow_inf_nan=False)


class StdioTest(Wire):
    """What the program reads, and what it must print."""

    id: str | None = None
    stdin: str = ""
    expected: str


class CallTest(Wire):
    """Arguments of one call, and what it must return; JSON, where a list stands for a tuple too."""

    id: str | None = None
    args: list[JsonValue] = Field(default_factory=list)
    expected: JsonValue


class AssertTest(Wire):
    """Python statements that raise unless the program is right."""

    id: str | None = None
    code: str = Field(min_length=1)


class _Submission(Wire):
    """What all modes have in common."""

    id: str = Field(min_length=1, max_length=256)
    language: str = "python"
    code: str
    limits: Limits = Limits()
    stop_on_fail: bool = False


class StdioSubmission(_Submission):
    """A whole program, run once a test."""

    mode: Literal["stdio"]
    tests: list[StdioTest] = Field(min_length=1, max_length=MOST_TESTS)
    checker: Checker = Checker()


class CallSubmission(_Submission):
    """A function, or a method of a class `Solution`, called once a test in a fresh process."""

    mode: Literal["function"]
    function: str = Field(min_length=1)
    tests: list[CallTest] = Field(min_length=1, max_length=MOST_TESTS)
    checker: Checker | None = None

    @model_validator(mode="after")
    def _compares_values(self) -> Self:
        if self.checker is not None and self.checker.type != "float":
            raise ValueError("values are compared as they are, or with the checker `float`")
        return self


class AssertSubmission(_Submission):
    """A module whose names the tests use. `setup` runs before each test, on the tests' side.

    `entry_point` is the function under test; if not given, the one that each test calls. Other
    names of the program are used too, but never in place of a builtin or of a library's name.
    """

    mode: Literal["assert"]
    entry_point: str | None = None
    setup: str = ""
    tests: list[AssertTest] = Field(min_length=1, max_length=MOST_TESTS)


class PytestSubmission(_Submission):
    """A module `solution` that the test files import; every test function found is a test."""

    mode: Literal["pytest"]
    files: dict[str, str] = Field(min_length=1, max_length=64)


Submission = Annotated[
    StdioSubmission | CallSubmission | AssertSubmission | PytestSubmission,
    Field(discriminator="mode"),
]
_SUBMISSION: TypeAdapter[Submission] = TypeAdapter(Submission)


class TestResult(Wire):
    """How one test went. Times in seconds; `peak_mb` is null where it cannot be measured.

    `limit` says which clock ran out in a TLE. `detail` is for people and never tells what was
    expected. `reruns` counts runs repeated because the machine, not the program, may have been
    slow. Streams are the heads of what the program wrote.
    """

    __test__ = False  # For pytest: not a class of tests.

    id: str
    verdict: Verdict
    limit: Literal["cpu", "wall"] | None = None
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    reruns: int = 0


class Result(Wire):
    """The answer to a submission; `tests` in its order, up to the first failure if so asked.

    `queue_s` is the longest a run waited for a slot, which no limit counts.
    """

    id: str
    verdict: Verdict
    reward: Literal[0, 1] | None
    retryable: bool
    tier: str
    detail: str | None = None
    compilation: TestResult | None = None
    tests: list[TestResult] = Field(default_factory=list)
    total: int
    queue_s: float = 0.0

    @model_validator(mode="after")
    def _reward_is_earned(self) -> Self:
        passed = bool(self.tests) and all(test.verdict == "OK" for test in self.tests)
        whole = passed and len(self.tests) == self.total
        known = self.verdict not in UNKNOWN
        if (self.reward == 1) != (whole and self.verdict == "OK") or (self.reward is None) == known:
            raise ValueError(f"verdict {self.verdict} with reward {self.reward}")
        return self


class Capabilities(Wire):
    """What a service offers: its tier and what enforces it, languages and their versions.

    `version` is that of its code: equal ones judge alike, on equal tiers and languages.
    """

    version: str
    tier: str
    enforces: Mapping[str, str]
    languages: Mapping[str, str]
    modes: Mapping[str, list[str]]
    slots: int
    self_test: Mapping[str, Any]


def parse_submission(body: bytes) -> Submission:
    """The submission of a request body; ValueError (pydantic's, or of broken JSON) if none."""
    return _SUBMISSION.validate_python(from_json(body, allow_inf_nan=False))
