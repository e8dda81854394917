"""Aliases move only past gates, in one recorded step, whoever else moves them at that time."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from posttrain.gates import Finding
from posttrain.journal import Journal
from posttrain.registry import Refused, Registry
from posttrain.registry.events import version
from posttrain.registry.history import History
from posttrain.registry.lineage import difference, lineage, origin
from posttrain.registry.state import sign_off, waivers
from posttrain.store import Artifact, Store
from tests.core.runs import ended

GOOD = [Finding("equivalence", True, "all digests equal")]
NEXT_YEAR = date.today() + timedelta(days=365)


def made(
    store: Store, stage: str, key: str, kind: str = "sft", facts: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None, **inputs: str,
) -> Artifact:  # fmt: skip
    draft = store.draft("r", stage, key)
    (draft.output / "w").write_text(key)
    return store.commit(
        draft, kind=kind, identity={"config": config or {}, "inputs": inputs}, inputs=inputs,
        metrics={}, facts=facts or {},
    )  # fmt: skip


def claim(store: Store, run: str, *keys: str) -> None:
    """A run whose plan has stages with those keys."""
    stages = [{"name": f"s{n}", "kind": "sft", "key": k, "inputs": {}} for n, k in enumerate(keys)]
    Journal(store, run).begin({"promote": None, "stages": stages})


def test_promote_moves_once_and_rollback_returns(store: Store) -> None:
    registry = Registry(store)
    one, two = made(store, "s", "k1"), made(store, "s", "k2")
    assert registry.promote(one, "candidate", GOOD)
    assert not registry.promote(one, "candidate", GOOD)
    assert registry.promote(two, "candidate", GOOD)
    assert registry.aliases() == {"candidate": two.address}
    assert registry.rollback("candidate") == (two.address, one.address)
    assert registry.aliases() == {"candidate": one.address}
    assert [move.event for move in registry.history("candidate")] == [
        "promote", "promote", "rollback",
    ]  # fmt: skip


def test_rollback_without_an_earlier_checkpoint_is_refused(store: Store) -> None:
    registry = Registry(store)
    registry.promote(made(store, "s", "k1"), "candidate", GOOD)
    with pytest.raises(ValueError, match="no earlier checkpoint"):
        registry.rollback("candidate")


@pytest.mark.parametrize("found", [[], [*GOOD, Finding("answers", False, "0.1 < 0.2")]])
def test_an_alias_moves_only_past_gates_that_all_hold(store: Store, found: list[Finding]) -> None:
    registry = Registry(store)
    with pytest.raises(Refused, match="may not become candidate"):
        registry.promote(made(store, "s", "k1"), "candidate", found)
    assert registry.aliases() == {}


def test_only_checkpoints_can_be_promoted(store: Store) -> None:
    with pytest.raises(ValueError, match="no checkpoint"):
        Registry(store).promote(made(store, "s", "k", "data"), "candidate", GOOD)


def _promote(root: Path, address: str) -> None:
    place = Store(root)
    Registry(place).promote(place.get(address), "candidate", GOOD)


def test_concurrent_promotions_leave_a_whole_history(store: Store) -> None:
    all_made = [made(store, "s", f"k{number}") for number in range(6)]
    spawn = multiprocessing.get_context("spawn")
    movers = [spawn.Process(target=_promote, args=(store.root, one.address)) for one in all_made]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join(60)
        assert mover.exitcode == 0
    history = Registry(store).history("candidate")
    assert sorted(event.checkpoint.address for event in history) == sorted(
        one.address for one in all_made
    )
    assert Registry(store).aliases()["candidate"] == history[-1].checkpoint.address


def test_an_auxiliary_checkpoint_is_never_promoted(store: Store) -> None:
    helper = made(store, "filter", "k", facts={"auxiliary": True})
    with pytest.raises(ValueError, match="is auxiliary"):
        Registry(store).promote(helper, "candidate", GOOD)
    assert Registry(store).aliases() == {}


def test_a_checkpoint_that_lost_a_file_is_not_promoted(store: Store) -> None:
    one = made(store, "s", "k")
    (one.path / "w").unlink()
    with pytest.raises(ValueError, match="file w differs from its record"):
        Registry(store).promote(one, "candidate", GOOD)
    assert Registry(store).history() == []


def test_rollback_brings_back_the_bytes_or_does_not_move(store: Store) -> None:
    registry = Registry(store)
    one, two = made(store, "s", "k1"), made(store, "s", "k2")
    for each in (one, two):
        registry.promote(each, "candidate", GOOD)
    (one.path / "w").write_text("other")
    with pytest.raises(ValueError, match="file w differs"):
        registry.rollback("candidate")
    assert registry.resolve("candidate").address == two.address
    (one.path / "w").write_text("k1")
    registry.rollback("candidate")
    assert (registry.resolve("candidate").path / "w").read_text() == "k1"


def test_another_artifact_at_the_address_of_one_promoted_is_told_apart(store: Store) -> None:
    registry = Registry(store)
    one = made(store, "s", "k1")
    registry.promote(one, "candidate", GOOD)
    shutil.rmtree(one.path)
    made(store, "s", "k2")
    with pytest.raises(ValueError, match="r/s@1 is not what was promoted"):
        registry.resolve("candidate")


def test_an_unknown_alias_names_the_nearest(store: Store) -> None:
    registry = Registry(store)
    with pytest.raises(ValueError, match="nor an alias; there are none yet"):
        registry.resolve("candidate")
    registry.promote(made(store, "s", "k"), "candidate", GOOD)
    with pytest.raises(ValueError, match="did you mean 'candidate'"):
        registry.resolve("candidat")


@pytest.mark.parametrize("deed", ["edit", "remove", "swap"])
def test_a_history_that_was_changed_is_refused(store: Store, deed: str) -> None:
    registry = Registry(store)
    for number in range(3):
        registry.promote(made(store, "s", f"k{number}"), "candidate", GOOD)
    second = store.root / "registry/history/000002.json"
    third = second.with_name("000003.json")
    if deed == "edit":
        second.chmod(0o644)
        second.write_text(second.read_text().replace("r/s@2", "r/s@1"))
    elif deed == "remove":
        second.unlink()
    else:
        content = second.read_bytes()
        third.rename(second)
        third.write_bytes(content)
    with pytest.raises(ValueError, match=r"00000[23]\.json is (damaged|missing)"):
        registry.aliases()


MOVER = """
import sys
from pathlib import Path
from posttrain.gates import Finding
from posttrain.registry import Registry
from posttrain.store import Store
store = Store(Path(sys.argv[1]))
for n in range(int(sys.argv[2])):
    Registry(store).promote(store.get(f"r/s@{n % 2 + 1}"), sys.argv[3], [Finding("g", True, "")])
    print(n, flush=True)
"""


def mover(store: Store, times: int, alias: str) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-c", MOVER, str(store.root), str(times), alias]
    return subprocess.Popen(line, stdout=subprocess.PIPE)


def test_two_processes_that_promote_at_once_lose_no_move(store: Store) -> None:
    for key in ("k1", "k2"):
        made(store, "s", key)
    movers = [mover(store, 60, alias) for alias in ("candidate", "release")]
    for each in movers:
        each.communicate(timeout=120)
        assert each.returncode == 0
    events = Registry(store).history()
    assert [event.number for event in events] == list(range(1, 121))
    for alias in ("candidate", "release"):
        moves = [event.checkpoint.address for event in Registry(store).history(alias)]
        assert moves == ["r/s@1", "r/s@2"] * 30
    assert not list((store.root / "registry/history").glob(".event.*"))


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.007])
def test_kill_9_while_promoting_leaves_whole_moves_only(store: Store, delay: float) -> None:
    for key in ("k1", "k2"):
        made(store, "s", key)
    process = mover(store, 10_000, "candidate")
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)
    registry = Registry(store)
    done = len(registry.history())
    assert done >= 3
    assert registry.aliases()["candidate"] == f"r/s@{(done - 1) % 2 + 1}"
    assert registry.promote(store.get(f"r/s@{done % 2 + 1}"), "candidate", GOOD)


def test_a_decision_is_taken_anew_when_another_was_faster(store: Store) -> None:
    registry = Registry(store)
    one, two = made(store, "s", "k1"), made(store, "s", "k2")
    registry.promote(one, "candidate", GOOD)
    history = History(store.root / "registry/history")
    asked: list[int] = []

    def decide(events: Any) -> Any:
        asked.append(len(events))
        if len(asked) == 1:
            registry.promote(two, "candidate", GOOD)
        return events[0].model_copy()

    event = history.append(decide)
    assert asked == [1, 2]
    assert event is not None
    assert event.number == 3


def test_a_retired_checkpoint_is_removed_and_its_address_not_given_again(store: Store) -> None:
    registry = Registry(store)
    one = made(store, "s", "k1")
    score = made(store, "scores", "e1", "evaluate", **{"from": one.address})
    assert registry.garbage() == []
    assert registry.retire(one, "superseded")
    assert not registry.retire(one, "superseded")
    with pytest.raises(ValueError, match=r"was retired by .*: superseded"):
        registry.promote(one, "candidate", GOOD)
    assert [each.address for each in registry.garbage()] == [score.address, one.address]
    assert one.path.exists()
    assert len(registry.collect()) == 2
    assert not one.path.exists()
    assert (one.path.parent / "1.removed/record.json").exists()
    assert made(store, "s", "k1").address == "r/s@2"
    assert registry.collect() == []


def test_what_an_alias_a_run_or_a_lineage_needs_is_not_retired(store: Store) -> None:
    registry = Registry(store)
    base = made(store, "base", "b", "pretrain")
    sft = made(store, "sft", "s", **{"from": base.address})
    other = made(store, "sft", "o", **{"from": base.address})
    for each in (sft, other):
        registry.promote(each, "candidate", GOOD)
    claim(store, "run", "o")
    for checkpoint, why in (
        (other, "alias candidate points to it; the plan of run run has it"),
        (sft, "alias candidate can be rolled back to it"),
        (base, "r/sft@1 was made from it; r/sft@2 was made from it"),
    ):
        with pytest.raises(ValueError, match="cannot be retired") as fault:
            registry.retire(checkpoint, "tidying up")
        assert sorted(why.split("; ")) == sorted(str(fault.value).split(": ")[1].split("; "))
    with pytest.raises(ValueError, match="no checkpoint"):
        registry.retire(made(store, "rows", "d", "data"), "tidying up")


def test_what_is_needed_again_after_it_was_retired_stays(store: Store) -> None:
    registry = Registry(store)
    base = made(store, "base", "b", "pretrain")
    registry.retire(base, "superseded")
    sft = made(store, "sft", "s", **{"from": base.address})
    claim(store, "run", "s")
    assert registry.collect() == []
    assert base.path.exists()
    shutil.rmtree(store.root / "runs")
    assert registry.garbage() == []  # sft is no garbage, and was made from it.
    registry.retire(sft, "so is this")
    assert [each.address for each in registry.collect()] == [sft.address, base.address]


def test_a_removal_that_was_killed_midway_is_finished(store: Store) -> None:
    registry = Registry(store)
    one = made(store, "s", "k1")
    registry.retire(one, "superseded")
    tombstone = one.path.with_name("1.removed")
    one.path.rename(tombstone)  # Killed after the rename.
    assert registry.collect() == []
    assert [entry.name for entry in tombstone.iterdir()] == ["record.json"]


def test_waivers_and_signatures_have_author_reason_and_expiry(store: Store) -> None:
    registry = Registry(store)
    one, two = made(store, "s", "k1"), made(store, "s", "k2")
    registry.waive(one, "answers", reason="known flaw", expires=NEXT_YEAR, by="ada")
    for approves in (True, False):
        registry.sign(
            one, "release", approves=approves, reason="read 50", expires=NEXT_YEAR, by="bob"
        )
    events, now = registry.history(), datetime.now(UTC)
    assert waivers(events, version(one), now)["answers"].author == "ada"
    assert waivers(events, version(two), now) == {}
    assert waivers(events, version(one), now + timedelta(days=400)) == {}
    last = sign_off(events, version(one), "release")
    assert last is not None
    assert (last.approves, last.author, last.reason) == (False, "bob", "read 50")
    assert sign_off(events, version(one), "candidate") is None


def test_a_lineage_goes_down_to_the_data_and_is_compared_by_field(store: Store) -> None:
    data = made(store, "rows", "d", "data", config={"rows": 8})
    more = made(store, "rows", "d2", "data", config={"rows": 9})
    base = made(store, "base", "b", "pretrain", **{"data.rows": data.address})
    other = made(store, "base", "b2", "pretrain", **{"data.rows": more.address})
    pair = [
        made(store, "sft", f"s{n}", config={"steps": n}, **{"from": each.address})
        for n, each in enumerate((base, other))
    ]
    assert [each.address for each in lineage(store, pair[0])] == [
        data.address, base.address, pair[0].address,
    ]  # fmt: skip
    found = difference(store, *pair)
    assert found["config.steps"] == (0, 1)
    assert found["from.data.rows.config.rows"] == (8, 9)
    assert difference(store, pair[0], pair[0]) == {}
    assert origin(pair[0]).inputs == {"from": base.address}


def test_the_commands_speak_json(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    registry = Registry(store)
    one, two = made(store, "s", "k1"), made(store, "s", "k2")
    spare = made(store, "s", "k3")
    for each in (one, two):
        registry.promote(each, "candidate", GOOD)

    def told(*arguments: str) -> Any:
        done = ended(tmp_path, *arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    assert told("checkpoints")["checkpoints"][1]["aliases"] == ["candidate"]
    assert told("checkpoints", "list") == told("checkpoints")
    assert told("checkpoints", "show", "candidate")["address"] == two.address
    assert [each["address"] for each in told("checkpoints", "lineage", "r/s@1")] == ["r/s@1"]
    assert "digest" in told("checkpoints", "diff", "r/s@1", "candidate")
    assert told("rollback", "candidate") == {
        "alias": "candidate", "from": two.address, "to": one.address,
    }  # fmt: skip
    reason = ["--reason", "superseded"]
    assert told("retire", spare.address, *reason)["retired"]
    collected = {"artifact": spare.address, "bytes": 2}
    assert told("gc", "--dry-run") == {"dry_run": True, "artifacts": [collected]}
    assert told("gc") == {"dry_run": False, "artifacts": [collected]}
    assert told("sign", "r/s@2", "--to", "release", *reason, "--by", "ada")["recorded"]
    assert (
        ended(tmp_path, "sign", "r/s@2", "--to", "a", *reason, "--expires", "2001-01-01").code == 2
    )
    assert told("checkpoints", "show", "r/s@2")["events"][-1]["author"] == "ada"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["retire", "r/s@1", "--reason", " "], "reason: String should have at least 1 character"),
        (["sign", "r/s@1", "--to", "a", "--reason", "x", "--by", ""], "author: String should"),
        (["sign", "r/s@1", "--to", "A b", "--reason", "x"], "'A b' is no name"),
        (["sign", "r/s@1", "--to", "a", "--reason", "x", "--expires", "soon"], "soon"),
        (["checkpoints", "show", "nobody"], "'nobody' is neither run/stage@number nor an alias"),
        (["checkpoints", "lineage", "r/s@9"], "no artifact r/s@9"),
        (["checkpoints", "equivalence", "r/s@1", "r/s@1"], "holds no model: no config.json"),
        (["waive", "r/s@1", "--gate", "g", "--reason", "x"], "'r' has not been started"),
        (["retire", "r/rows@1", "--reason", "x"], "r/rows@1 is a data, no checkpoint"),
    ],
)
def test_wrong_use_is_one_line_and_records_nothing(
    store: Store, tmp_path: Path, arguments: list[str], told: str
) -> None:
    made(store, "s", "k1")
    made(store, "rows", "d", "data")
    done = ended(tmp_path, *arguments)
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
    assert Registry(store).history() == []


def test_gc_removes_what_a_crash_kept_out_of_the_history(store: Store) -> None:
    registry = Registry(store)
    registry.promote(made(store, "s", "k1"), "candidate", GOOD)
    folder = store.root / "registry/history"
    old, new = folder / ".event.old", folder / ".event.new"
    for path in (old, new):
        path.write_text("{")
    os.utime(old, (0, 0))
    registry.collect()
    assert (old.exists(), new.exists()) == (False, True)
    assert registry.aliases() == {"candidate": "r/s@1"}
