"""The commands of the sandbox: parse, call and print.

Exit codes: 0 done, 1 the program or the self-test failed, 2 wrong input, 4 the machine failed us.
"""

import asyncio
import json
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from sandbox.languages import BUILT_IN
from sandbox.offer import TierChoice
from sandbox.schema import Result, Submission, parse_submission
from sandbox.serve import LEAST_SLOTS, ServeOptions, serve
from sandbox.tiers import NotOffered, Tier

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Run untrusted programs against tests.",
)  # fmt: skip

WRONG_USE: type[Any] = typer.BadParameter.__mro__[2]
"""The base of Typer's faults, which it exports under no name of its own."""

TierName = Annotated[str, typer.Option("--tier", help="docker, namespaces or process")]
Unsafe = Annotated[bool, typer.Option("--allow-unsafe", help="needed for the tier `process`")]
Image = Annotated[str | None, typer.Option(help="of the tier docker")]
Runtime = Annotated[str | None, typer.Option(help="of the tier docker, for example runsc")]
Interpreter = Annotated[
    Path | None, typer.Option(help="Python of the programs, in the tier namespaces")
]
_SUFFIXES = {Path(one.source).suffix: name for name, one in BUILT_IN.items()}


@app.command("serve")
def serve_command(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one")] = 8091,
    port_file: Annotated[Path | None, typer.Option(help="where to write the port")] = None,
    tier: TierName = "namespaces",
    allow_unsafe: Unsafe = False,
    slots: Annotated[
        int | None, typer.Option(min=LEAST_SLOTS, help="programs at once (default: cores)")
    ] = None,
    queue: Annotated[int, typer.Option(min=0, help="submissions that may wait")] = 512,
    drain: Annotated[float, typer.Option(min=0, help="seconds to finish at the end")] = 30.0,
    languages: Annotated[Path | None, typer.Option(help="more languages (TOML)")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="holds the bearer token (default: that of SANDBOX_TOKEN)")
    ] = None,
    image: Image = None,
    runtime: Runtime = None,
    interpreter: Interpreter = None,
) -> None:
    """Serve until stopped."""
    choice = TierChoice(tier, allow_unsafe, image, runtime, interpreter)
    options = ServeOptions(
        host, port, port_file, choice, slots, queue, drain, languages, token_file
    )
    raise typer.Exit(serve(options))


@app.command()
def selftest(
    tier: TierName = "namespaces",
    image: Image = None,
    runtime: Runtime = None,
    interpreter: Interpreter = None,
) -> None:
    """Try the tier's protections with live programs, and tell what held."""
    from sandbox.selftest import self_test

    # Never on a tier that does not isolate: the probes would reach this machine itself.
    choice = TierChoice(tier, False, image, runtime, interpreter)
    report = asyncio.run(self_test(choice.opened()))
    for name, wrong in report.checks.items():
        print(f"{name:<24} {'holds' if wrong is None else wrong}")
    raise typer.Exit(0 if report.passed else 1)


@app.command()
def doctor(
    tier: TierName = "namespaces",
    image: Image = None,
    runtime: Runtime = None,
    interpreter: Interpreter = None,
) -> None:
    """Tell what holds programs on this machine, by what, and what to do where it does not."""
    from sandbox.doctor import diagnose

    findings = asyncio.run(diagnose(TierChoice(tier, False, image, runtime, interpreter)))
    for finding in findings:
        print(f"{finding.state:<8} {finding.subject:<24} {finding.text}")
        if finding.advice is not None:
            print(textwrap.indent(finding.advice, " " * 9))
    raise typer.Exit(1 if any(finding.state == "missing" for finding in findings) else 0)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="the program")],
    tests: Annotated[Path, typer.Option(help="mode and tests: a submission without `code` (JSON)")],
    tier: TierName = "namespaces",
    allow_unsafe: Unsafe = False,
    image: Image = None,
    runtime: Runtime = None,
    interpreter: Interpreter = None,
) -> None:
    """Judge one program without a service, and print the result as JSON."""
    submission = _submission(file, tests)
    choice = TierChoice(tier, allow_unsafe, image, runtime, interpreter)
    result = asyncio.run(_judged(choice.opened(), submission))
    print(result.model_dump_json(indent=1))
    raise typer.Exit(0 if result.verdict == "OK" else 4 if result.verdict == "IE" else 1)


def _submission(file: Path, tests: Path) -> Submission:
    try:
        content = json.loads(tests.read_text("utf-8"))
    except ValueError as fault:
        raise ValueError(f"{tests} is not JSON: {fault}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{tests} holds no object with `mode` and `tests`")
    language = _SUFFIXES.get(file.suffix, "python")
    known = {"id": file.name, "language": language, "code": file.read_text("utf-8")}
    return parse_submission(json.dumps({**known, **content}).encode())


async def _judged(tier: Tier, submission: Submission) -> Result:
    from sandbox.judging.execution import Executor
    from sandbox.metrics import Metrics
    from sandbox.slots import Pool

    async with Pool(tier, LEAST_SLOTS, Metrics()) as pool:
        return await Executor(pool, BUILT_IN).execute(submission)


def main() -> int:
    """Run the command line; a fault of the user or the machine becomes one line."""
    try:
        return app(standalone_mode=False) or 0
    except WRONG_USE as fault:
        return _told(2, " ".join(fault.format_message().split()))
    except ValueError as fault:
        return _told(2, " ".join(str(fault).split()))
    except (NotOffered, OSError) as fault:
        return _told(4, str(fault))


def _told(code: int, reason: str) -> int:
    if reason:
        print(f"sandbox: {reason}", file=sys.stderr)
    return code
