"""Labelled cases through a live service: one line a kind, and a file with what needs a look.

Exit codes: 0 every case has a verdict, 1 some verdicts are `failed` (nothing is known of those),
2 wrong use, 4 no service.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from rewards.audit.corpus import Case, read
from rewards.audit.hosting import HostingFault, rewards_service
from rewards.audit.tally import Outcome, Tally
from rewards.client import RewardClient

_BATCH = 16
_CONNECTIONS = 8
_TIMEOUT = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        cases = read(options.folder)
        verifiers = sorted({case.item.verifier for case in cases})
        hosted = rewards_service(verifiers, options.sandbox_url)
        with nullcontext(options.url) if options.url else hosted as url:
            outcomes = asyncio.run(judge(url, cases))
        options.out.write_text("".join(f"{json.dumps(row)}\n" for row in _noteworthy(outcomes)))
    except (OSError, ValueError) as fault:
        print(f"cases: {fault}", file=sys.stderr)
        return 2
    except HostingFault as fault:
        print(f"cases: {fault}", file=sys.stderr)
        return 4
    print(*lines(outcomes), sep="\n")
    print(f"policy cases and disagreements: {options.out}")
    return int(any(outcome.finding == "fault" for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rewards.audit.cases", description="Labelled cases through a live service."
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with *.jsonl files")
    parser.add_argument("--url", help="a running reward service (default: one is started)")
    parser.add_argument("--sandbox-url", help="a running sandbox for the service that is started")
    parser.add_argument("--out", type=Path, default=Path("cases-report.jsonl"), metavar="FILE",
                        help="where to list them (default: %(default)s)")  # fmt: skip
    return parser


async def judge(url: str, cases: Sequence[Case]) -> list[Outcome]:
    """What the service at `url` says about each of `cases`, in their order."""
    async with RewardClient(
        url, timeout=_TIMEOUT, patience=_TIMEOUT, batch=_BATCH, connections=_CONNECTIONS, fresh=True
    ) as client:
        verdicts = await client.score([case.item for case in cases])
    return [Outcome(case, verdict) for case, verdict in zip(cases, verdicts, strict=True)]


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each kind, followed by one for each family of a kind that has families."""
    for kind in dict.fromkeys(outcome.case.kind for outcome in outcomes):
        of_kind = [outcome for outcome in outcomes if outcome.case.kind == kind]
        yield Tally.of(of_kind).line(kind)
        for group in dict.fromkeys(o.case.group for o in of_kind if o.case.group):
            of_group = [outcome for outcome in of_kind if outcome.case.group == group]
            yield Tally.of(of_group).line(f"{kind}/{group}")


def _noteworthy(outcomes: Sequence[Outcome]) -> Iterator[dict[str, object]]:
    for outcome in outcomes:
        if not outcome.case.clear or outcome.finding != "agreed":
            yield outcome.record()


if __name__ == "__main__":
    sys.exit(main())
