"""The filter, decided by an interpreter of BPF as the kernel would."""

import errno
import re
import struct
from pathlib import Path

import pytest

from sandbox.tiers import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def decide(rules: bytes, architecture: int, number: int, *arguments: int) -> int:
    """The filter's answer to a system call."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *words)
    at, loaded = 0, 0
    while True:
        code, yes, no, operand = struct.unpack_from("=HBBI", rules, 8 * at)
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return int(operand)
        else:
            holds = {0x15: loaded == operand, 0x25: loaded > operand, 0x45: loaded & operand}[code]
            at += yes if holds else no


def refusal(error: int) -> int:
    return 0x00050000 | error


@pytest.mark.parametrize("machine", MACHINES)
def test_each_listed_call_is_refused_and_its_neighbours_are_not(machine: str) -> None:
    rules = seccomp.program_filter(accounted=True, machine=machine)
    refused = seccomp.refused_numbers(machine)
    for number in refused.values():
        assert decide(rules, MACHINES[machine], number) == refusal(errno.EPERM)
    read, write = (0, 1) if machine == "x86_64" else (63, 64)
    assert decide(rules, MACHINES[machine], read) == ALLOW
    assert decide(rules, MACHINES[machine], write) == ALLOW
    assert decide(rules, MACHINES[machine], 462) == ALLOW
    assert decide(rules, MACHINES[machine], 463) == refusal(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]}")
    pattern = r"#define __NR(?:3264)?_(\w+)\s+(\d+)$"
    known = dict(re.findall(pattern, HEADERS[machine].read_text(), re.MULTILINE))
    listed = seccomp.refused_numbers(machine) | seccomp.checked_numbers(machine)
    compared = {name: int(known[name]) for name in listed if name in known}
    assert len(compared) > 60
    assert compared == {name: listed[name] for name in compared}


def test_calls_of_another_machine_or_width_kill() -> None:
    rules = seccomp.program_filter(accounted=True, machine="x86_64")
    assert decide(rules, 0x40000003, 20) == KILL
    assert decide(rules, MACHINES["aarch64"], 63) == KILL
    assert decide(rules, MACHINES["x86_64"], 0x40000000) == KILL


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("socket", (1, 1, 0), ALLOW),
        ("socket", (2, 1, 6), ALLOW),
        ("socket", (10, 2, 17), ALLOW),
        ("socket", (16, 3, 0), refusal(errno.EAFNOSUPPORT)),
        ("socket", (40, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("socket", (2**32 + 1, 1, 0), ALLOW),  # As the kernel reads it: a word of 32 bits.
        ("socket", (2**32 + 40, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("socket", (2, 1, 262), refusal(errno.EPROTONOSUPPORT)),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (38, 1, 0), refusal(errno.EAFNOSUPPORT)),
        ("clone", (0x01200011,), ALLOW),
        ("clone", (0x10000011,), refusal(errno.EPERM)),
        ("clone", (0x00020000,), refusal(errno.EPERM)),
        ("clone3", (0,), refusal(errno.ENOSYS)),
        ("prlimit64", (0, 7), ALLOW),
        ("prlimit64", (1, 0), refusal(errno.EPERM)),
        ("setpriority", (0, 0), ALLOW),
        ("setpriority", (0, 1), refusal(errno.EPERM)),
        ("setpriority", (2, 0), refusal(errno.EPERM)),
        ("ioprio_set", (1, 0), ALLOW),
        ("ioprio_set", (3, 0), refusal(errno.EPERM)),
        ("sched_setaffinity", (1,), refusal(errno.EPERM)),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0x0040000,), refusal(errno.EPERM)),
        ("ioctl", (0, 0x5412), refusal(errno.EPERM)),
        ("ioctl", (0, 0x5401), ALLOW),
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_judged_by_their_arguments(
    machine: str, name: str, arguments: tuple[int, ...], answer: int
) -> None:
    rules = seccomp.program_filter(accounted=True, machine=machine)
    number = seccomp.checked_numbers(machine)[name]
    assert decide(rules, MACHINES[machine], number, *arguments) == answer


@pytest.mark.parametrize(("accounted", "answer"), [(True, ALLOW), (False, refusal(errno.EPERM))])
def test_memory_outside_processes_is_allowed_where_it_is_accounted_for(
    accounted: bool, answer: int
) -> None:
    rules = seccomp.program_filter(accounted=accounted, machine="x86_64")
    assert decide(rules, MACHINES["x86_64"], 319) == answer
    assert decide(rules, MACHINES["x86_64"], 29) == answer
