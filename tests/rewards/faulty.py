"""A verifier that misbehaves as the response says; served by tests as `faulty=<this module>`."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rewards.schema import Item, Verdict, abstained, scored
from rewards.verifiers import Canary

RUNS = "worker"
GOLD = PARAMETERS = TypeAdapter(None)
DISTRIBUTIONS = ()
FLAG = "FAULTY_CANARY_FLAG"
"""Environment variable with a path; while that exists the canary fails."""


def verify(item: Item) -> Verdict:
    """`WORD` does that; `WORD PATH` only if PATH does not exist yet, and 1 after that."""
    word, _, path = (item.response or "").partition(" ")
    if path:
        if Path(path).exists():
            return scored(item, 1.0)
        Path(path).write_text(str(os.getpid()))
    return _DEEDS[word](item)


def _spin(item: Item) -> Verdict:
    while True:
        pass


def _tell_and_spin(item: Item) -> Verdict:
    path = Path(str(item.gold))
    draft = path.with_suffix(".draft")
    draft.write_text(str(os.getpid()))
    draft.replace(path)
    return _spin(item)


def _backtrack(item: Item) -> Verdict:
    re.match(r"(a+)+$", "a" * 64 + "b")
    raise AssertionError("that took years")


def _exit(item: Item) -> Verdict:
    os._exit(0)


def _crash(item: Item) -> Verdict:
    os.kill(os.getpid(), signal.SIGSEGV)
    return scored(item, 1.0)


def _hoard(item: Item) -> Verdict:
    return scored(item, float(len(bytearray(2**33)) > 0))


_kept: list[bytes] = []


def _grow(item: Item) -> Verdict:
    _kept.append(b"x" * 300 * 2**20)
    return scored(item, 1.0)


def _sleep(item: Item) -> Verdict:
    time.sleep(3600)
    return scored(item, 1.0)


def _log(item: Item) -> Verdict:
    with Path(str(item.gold)).open("a") as log:
        log.write(f"{item.id}\n")
    return _nap(item)


def _log_and_crash(item: Item) -> Verdict:
    _log(item)
    return _crash(item)


def _log_and_wait(item: Item) -> Verdict:
    _log(item)
    while not Path(str(item.gold)).with_name("enough").exists():
        time.sleep(0.01)
    return scored(item, 1.0)


def _nap(item: Item) -> Verdict:
    time.sleep(0.3)
    return scored(item, 1.0)


def _canary(item: Item) -> Verdict:
    flag = os.environ.get(FLAG)
    return scored(item, 0.0 if flag and Path(flag).exists() else 1.0)


def _nonsense(item: Item) -> Any:
    return "fine"


def _impersonate(item: Item) -> Verdict:
    return Verdict(id="another", verifier="another", status="scored", score=0.5)


_DEEDS: dict[str, Callable[[Item], Any]] = {
    "pass": lambda item: scored(item, 1.0),
    "abstain": lambda item: abstained(item, "no_gold", "nothing to compare with"),
    "spin": _spin,
    "tell-and-spin": _tell_and_spin,
    "backtrack": _backtrack,
    "exit": _exit,
    "crash": _crash,
    "hoard": _hoard,
    "nap": _nap,
    "log": _log,
    "log-and-crash": _log_and_crash,
    "log-and-wait": _log_and_wait,
    "grow": _grow,
    "sleep": _sleep,
    "canary": _canary,
    "nonsense": _nonsense,
    "impersonate": _impersonate,
}  # An unknown word raises KeyError, which is a fault like any other.

CANARIES = [
    Canary(item=Item(id="canary", verifier="faulty", response="canary"), score=1.0),
]
