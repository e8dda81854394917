"""The system calls a program may not make, as a seccomp filter (classic BPF).

Refused are calls that reach beyond a program's own processes, files and memory: other processes'
memory, namespaces and mounts, keys, tracing, clocks, and kernel parts with a history of holes. A
refusal is an error the program sees. Calls newer than the list was reviewed for do not exist, so
what is not listed is known to be harmless. Numbers: Linux's unistd.h for each machine.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.tiers import NotOffered

_REVIEWED = 462  # mseal, Linux 6.10: the newest call looked at.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*
_X32 = 0x40000000

_NUMBERS = """
ptrace 101 117|process_vm_readv 310 270|process_vm_writev 311 271|kcmp 312 272
pidfd_getfd 438 438|process_madvise 440 440|process_mrelease 448 448
unshare 272 97|setns 308 268|mount 165 40|umount2 166 39|pivot_root 155 41|chroot 161 51
move_mount 429 429|open_tree 428 428|fsopen 430 430|fsconfig 431 431|fsmount 432 432
fspick 433 433|mount_setattr 442 442|statmount 457 457|listmount 458 458
name_to_handle_at 303 264|open_by_handle_at 304 265
add_key 248 217|request_key 249 218|keyctl 250 219
io_uring_setup 425 425|io_uring_enter 426 426|io_uring_register 427 427
bpf 321 280|perf_event_open 298 241|userfaultfd 323 282|fanotify_init 300 262
fanotify_mark 301 263|memfd_secret 447 447|lsm_set_self_attr 460 460
init_module 175 105|finit_module 313 273|delete_module 176 106|kexec_load 246 104
kexec_file_load 320 294|reboot 169 142|swapon 167 224|swapoff 168 225|acct 163 89
quotactl 179 60|quotactl_fd 443 443|syslog 103 116|vhangup 153 58
settimeofday 164 170|clock_settime 227 112|adjtimex 159 171|clock_adjtime 305 266
sethostname 170 161|setdomainname 171 162|lookup_dcookie 212 18|nfsservctl 180 42
iopl 172 -|ioperm 173 -|modify_ldt 154 -|uselib 134 -|ustat 136 -|sysfs 139 -|_sysctl 156 -
create_module 174 -|get_kernel_syms 177 -|query_module 178 -
move_pages 279 239|migrate_pages 256 238|mbind 237 235|set_mempolicy 238 237
set_mempolicy_home_node 450 450
"""
_UNACCOUNTED = "memfd_create 319 279|shmget 29 194"  # Memory that belongs to no process.
_CHECKED = """
clone 56 220|clone3 435 435|socket 41 198|socketpair 53 199|prlimit64 302 261
sched_setaffinity 203 122|sched_setscheduler 144 119|sched_setparam 142 118
sched_setattr 314 274|setpriority 141 140|ioprio_set 251 30|personality 135 92|ioctl 16 29
"""

_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6: no vsock, netlink, packet, alg.
_MOST_FAMILIES = 64
_PROTOCOLS = (0, 6, 17)  # The default, TCP, UDP.
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false (instructions to skip), operand."""


@dataclass(frozen=True)
class Check:
    """Refuse with `error` unless the low half of `argument` is among `values`.

    With `bits`: if it has any of them; with `refused`: if it is among them.
    """

    argument: int
    error: int
    values: tuple[int, ...] = ()
    bits: int = 0
    refused: bool = False


_ITSELF = Check(0, errno.EPERM, values=(0,))
_CHECKS: Mapping[str, tuple[Check, ...]] = {
    "clone": (Check(0, errno.EPERM, bits=_NAMESPACES),),
    "socket": (
        Check(0, errno.EAFNOSUPPORT, values=_FAMILIES),
        Check(2, errno.EPROTONOSUPPORT, values=_PROTOCOLS),
    ),
    "socketpair": (Check(0, errno.EAFNOSUPPORT, values=_FAMILIES),),
    # Of the program's init, which has the same user: its limits and its share of the processor.
    "prlimit64": (_ITSELF,),
    "sched_setaffinity": (_ITSELF,),
    "sched_setscheduler": (_ITSELF,),
    "sched_setparam": (_ITSELF,),
    "sched_setattr": (_ITSELF,),
    "setpriority": (_ITSELF, Check(1, errno.EPERM, values=(0,))),
    "ioprio_set": (Check(0, errno.EPERM, values=(1,)), Check(1, errno.EPERM, values=(0,))),
    "personality": (Check(0, errno.EPERM, values=(0, 0xFFFFFFFF)),),
    "ioctl": (Check(1, errno.EPERM, values=_TERMINAL_INJECTION, refused=True),),
}


def program_filter(*, accounted: bool, machine: str | None = None) -> bytes:
    """The filter of a program on this machine, for seccomp(2); NotOffered if there is none.

    Unless memory is `accounted` for as a whole, calls that make memory outside a process are
    refused too.
    """
    numbers = checked_numbers(machine)
    refused = _numbers(_NUMBERS + ("" if accounted else _UNACCOUNTED), machine)
    instructions = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine or platform.machine()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        *_when((_GREATER, _X32 - 1), [(_RETURN, 0, 0, _KILL)]),
        *_when((_GREATER, _REVIEWED), [_refuse(errno.ENOSYS)]),
        # clone3's flags are out of a filter's sight; libraries fall back to clone.
        *_when((_EQUAL, numbers["clone3"]), [_refuse(errno.ENOSYS)]),
    ]
    for number in refused.values():
        instructions += _when((_EQUAL, number), [_refuse(errno.EPERM)])
    for name, checks in _CHECKS.items():
        instructions += _when((_EQUAL, numbers[name]), list(_checked(checks)))
    instructions.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def container_profile() -> dict[str, Any]:
    """What a whole container may not do, in Docker's format: no program in it may."""
    error: dict[str, Any] = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    families: list[dict[str, Any]] = [
        {
            "names": ["socket", "socketpair"],
            "args": [{"index": 0, "value": one, "op": "SCMP_CMP_EQ"}],
        }
        for one in range(_MOST_FAMILIES)
        if one not in _FAMILIES
    ]
    refused = [{"names": list(refused_numbers())}, *families]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [rule | error for rule in refused],
    }


def refused_numbers(machine: str | None = None) -> dict[str, int]:
    """The calls that are refused whatever their arguments."""
    return _numbers(_NUMBERS, machine)


def checked_numbers(machine: str | None = None) -> dict[str, int]:
    """The calls that are refused for some arguments."""
    return _numbers(_CHECKED, machine)


def _numbers(table: str, machine: str | None) -> dict[str, int]:
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise NotOffered(
            f"no seccomp filter for {machine}: use {' or '.join(_ARCHITECTURES)}, or another tier"
        )
    column = 1 + list(_ARCHITECTURES).index(machine)
    rows = [entry.split() for entry in table.replace("\n", "|").split("|") if entry]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def _refuse(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | error)


def _when(condition: tuple[int, int], block: list[Instruction]) -> list[Instruction]:
    """`block` if the loaded word meets `condition`, else what follows."""
    code, operand = condition
    return [(code, 0, len(block), operand), *block]


def _checked(checks: Iterable[Check]) -> Iterator[Instruction]:
    """Instructions that allow the call if every check does."""
    for check in checks:
        yield (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * check.argument)
        if check.bits:
            yield from _when((_ANY_BIT, check.bits), [_refuse(check.error)])
        elif check.refused:
            for value in check.values:
                yield from _when((_EQUAL, value), [_refuse(check.error)])
        else:
            rest = len(check.values)
            for position, value in enumerate(check.values):
                yield (_EQUAL, rest - position, 0, value)  # Over the refusal.
            yield _refuse(check.error)
    yield (_RETURN, 0, 0, _ALLOW)
