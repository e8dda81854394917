"""Says in plain words what this machine can hold programs to, and what to do where it cannot.

Each finding stands on a trial, not on a version: what is said to hold was seen to.
"""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox.offer import TierChoice
from sandbox.selftest import self_test
from sandbox.tiers import NotOffered, SlotLost, Tier, cgroup, seccomp
from sandbox.tiers.bubblewrap import find_bubblewrap
from sandbox.tiers.interpreter import find_interpreter

State = Literal["holds", "weaker", "missing"]
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MOST = Path("/proc/sys/user/max_user_namespaces")
_PROFILE = """\
Ubuntu keeps user namespaces from programs without an AppArmor profile. Give bubblewrap one, in
/etc/apparmor.d/sandbox-bwrap:
  abi <abi/4.0>,
  profile sandbox-bwrap {path} flags=(unconfined) {{ userns, }}
and load it: sudo apparmor_parser -r /etc/apparmor.d/sandbox-bwrap"""


@dataclass(frozen=True)
class Finding:
    """Something that holds programs, or should; with advice where it does not."""

    subject: str
    state: State
    text: str
    advice: str | None = None


async def diagnose(choice: TierChoice) -> list[Finding]:
    """What the tier needs and what it enforces here; ValueError if there is no such tier."""
    needs = list(_needs(choice.interpreter)) if choice.name == "namespaces" else []
    if any(finding.state == "missing" for finding in needs):
        return needs
    try:
        tier = choice.opened()
    except NotOffered as lack:
        return [*needs, Finding(f"tier {choice.name}", "missing", "cannot be had here", str(lack))]
    slot = await _slot(tier)
    if slot.state == "missing":
        return [*needs, slot]
    report = await self_test(tier)
    limits = [_limit(name, by) for name, by in tier.enforces().items()]
    tried = [
        Finding(f"self-test: {name}", "missing", wrong, "do not serve programs from this machine")
        for name, wrong in report.failures.items()
    ]
    passed = Finding("self-test", "holds", f"{len(report.checks)} probes held")
    return [*needs, slot, *limits, *(tried or [passed])]


def _needs(interpreter: Path | None) -> Iterator[Finding]:
    """What the tier `namespaces` needs."""
    yield _machine()
    try:
        binary = find_bubblewrap()
    except NotOffered as lack:
        yield Finding("bubblewrap", "missing", "not found", str(lack))
    else:
        yield Finding("bubblewrap", "holds", str(binary.path))
    try:
        found = find_interpreter(interpreter)
    except NotOffered as lack:
        yield Finding("interpreter", "missing", str(lack), "give another --interpreter")
    else:
        yield Finding("interpreter", "holds", f"{found.binary} runs Python programs")
    yield _groups(cgroup.find_parents())


def _machine() -> Finding:
    try:
        seccomp.program_filter(accounted=True)
    except NotOffered as lack:
        return Finding("system calls", "missing", str(lack), "use the tier docker")
    return Finding("system calls", "holds", f"a seccomp filter for {platform.machine()}")


async def _slot(tier: Tier) -> Finding:
    """Whether a slot can be made here: by bubblewrap, or by the daemon."""
    own = tier.name == "namespaces"
    subject = "user namespaces" if own else "container"
    try:
        slot = await tier.slot()
    except SlotLost as lost:
        advice = _namespace_advice() if own else "see what the Docker daemon says of it"
        return Finding(subject, "missing", str(lost), advice)
    await slot.close()
    return Finding(subject, "holds", f"{'bubblewrap' if own else 'the daemon'} can make them")


def _namespace_advice() -> str:
    if _setting(_APPARMOR) == "1":
        return _PROFILE.format(path=find_bubblewrap().path)
    if _setting(_CLONE) == "0":
        return "the kernel refuses them to users: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _setting(_MOST) == "0":
        return "the kernel is set to allow none: sudo sysctl user.max_user_namespaces=10000"
    return (
        "inside a container, start that with --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined --security-opt systempaths=unconfined; "
        "or use the tier docker"
    )


def _setting(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _groups(parents: cgroup.Parents | None) -> Finding:
    if parents is not None and {"memory", "pids"} <= set(parents.directories):
        where = f"cgroup {parents.dialect.name} in {parents.directories['memory']}"
        return Finding("control groups", "holds", where)
    return Finding(
        "control groups", "weaker",
        "none to be had: memory and processes are bounded by looking, not by the kernel",
        "run as root, or with groups of your own: systemd-run --user --scope -p Delegate=yes ...",
    )  # fmt: skip


def _limit(name: str, by: str) -> Finding:
    if by == "nothing":
        return Finding(name, "missing", by)
    return Finding(name, "weaker" if by.startswith("best effort") else "holds", by)
