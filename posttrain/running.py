"""Carrying out a plan: lease, warden, Ray, controller and view, opened and closed in order."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from posttrain import reports
from posttrain.backends import profile
from posttrain.cluster import connected
from posttrain.controller import Controller
from posttrain.journal import Journal
from posttrain.lease import held
from posttrain.plan import Plan
from posttrain.store import Store
from posttrain.view import View
from posttrain.warden import Warden


def carry_out(plan: Plan, store: Store, ray_address: str | None, console: Console) -> str:
    """Execute what `plan` lacks; returns one line on where the time went.

    RuntimeError if it is interrupted, by Ctrl-C or SIGTERM, after all it started has ended.
    """
    backend = profile(plan.recipe.backend)
    begun = time.monotonic()
    journal = Journal(store, plan.recipe.name)
    with (
        _interruptible() as claim_signals,
        held(store, plan.recipe.name) as token,
        Warden(token, plan.recipe.stalls.controller) as warden,
    ):
        journal.begin(reports.describe(plan))
        journal.record("run started", stages=[node.name for node in plan.pending()])
        mark = len(journal.events())
        with connected(ray_address, backend) as cores:
            claim_signals()  # Ray has put handlers of its own in place.
            ready = time.monotonic()
            with View(console) as view:
                Controller(plan, store, cores, view, warden).run()
        journal.record("run finished")
    spent = time.monotonic() - begun
    return reports.timing(journal.events()[mark:], ready - begun, spent)


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Make SIGTERM end the run as Ctrl-C does; once it is ending, neither disturbs that.

    Yields what puts the handlers in place once more.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for ignored in before:
            signal.signal(ignored, signal.SIG_IGN)
        raise KeyboardInterrupt

    def claim() -> None:
        for number in before:
            signal.signal(number, interrupt)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    claim()
    try:
        yield claim
    except KeyboardInterrupt:
        raise RuntimeError("interrupted; run the same command again to continue") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
