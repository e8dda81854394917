"""`posttrain ledger`: totals that balance, one prompt's life, also of a stage that is under way."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posttrain.cli import app
from posttrain.rl.ledger import ARCHIVED, Ledger, archive
from posttrain.store import Store

PLAN = {"prompts_per_step": 1, "group": 1, "seed": 1}


def _lived(path: Path) -> None:
    """Prompt 0 trained, 1 filtered, 2 dropped, and one in flight; then killed and resumed."""
    ledger = Ledger(path, 0, PLAN)
    for number, source in enumerate(("a", "a", "b", "b")):
        ledger.note("issued", prompt=number, row=number, source=source, version=0)
        ledger.note("generating", prompt=number)
    ledger.note("generated", prompt=0, response=0, tokens=7, versions=[0, 0])
    ledger.note("scored", prompt=0, response=0, status="scored", reason="", score=1.0)
    ledger.note("trained", step=1, prompts=[0])
    ledger.note("filtered", prompt=1, reward=0.0)
    ledger.note("dropped", prompt=2, why="stale", step=1)
    ledger.note("checkpoint", step=1)
    ledger.note("dropped", prompt=3, why="fault", step=2)
    resumed = Ledger(path, 1, PLAN)
    resumed.note("reissued", prompt=3, version=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    work = tmp_path / "work" / "smoke" / "rl"
    work.mkdir(parents=True)
    _lived(work / "ledger.jsonl")
    return tmp_path


def _told(store: Path, *asked: str) -> Any:
    arguments = ["ledger", "smoke", "--store", str(store), *asked, "--json"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_the_totals_balance(store: Path) -> None:
    told = _told(store)
    totals = told["totals"]
    assert totals == {
        "issued": 4, "trained": 1, "filtered": 1, "dropped.stale": 1, "in_flight": 1
    }  # fmt: skip
    assert told["imbalance"] is None
    assert (told["step"], told["checkpoint"], told["attempts"], told["void"]) == (1, 1, 2, 1)
    assert told["sources"]["b"] == {"issued": 2, "dropped.stale": 1, "in_flight.queued": 1}


def test_a_prompts_life_is_told_with_what_was_undone(store: Path) -> None:
    life = _told(store, "--prompt", "3")["life"]
    assert [(event["event"], event["void"]) for event in life] == [
        ("issued", False), ("generating", False), ("dropped", True), ("reissued", False)
    ]  # fmt: skip
    assert [event["event"] for event in _told(store, "--prompt", "0")["life"]] == [
        "issued", "generating", "generated", "scored", "trained"
    ]  # fmt: skip


def test_people_get_tables_and_a_next_step(store: Path) -> None:
    arguments = ["ledger", "smoke", "--store", str(store)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "dropped stale" in done.stdout
    assert "next: posttrain ledger smoke --stage rl --prompt 0" in done.stdout
    done = CliRunner().invoke(app, [*arguments, "--prompt", "3"], catch_exceptions=False)
    assert "undone" in done.stdout


def test_a_finished_stage_has_its_ledger_in_the_artifact(store: Path) -> None:
    made = Store(store)
    draft = made.draft("smoke", "rl", "a" * 64)
    _lived(draft.work / "ledger.jsonl")
    archive(draft.work / "ledger.jsonl", draft.output / ARCHIVED)
    made.commit(draft, kind="rl", identity={}, inputs={}, metrics={}, facts={})
    told = _told(store)
    assert told["ledger"].endswith(f"rl/1/{ARCHIVED}")
    assert told["totals"]["trained"] == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--prompt", "9"], "no prompt 9 in the ledger; it has 0 to 3"),
        (["--stage", "sft"], "stage sft of run smoke has no ledger"),
    ],
)
def test_what_is_not_there_is_said(store: Path, asked: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CliRunner().invoke(
            app, ["ledger", "smoke", "--store", str(store), *asked], catch_exceptions=False
        )


def test_a_ledger_that_does_not_balance_is_a_failure(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posttrain.rl.account.Account.imbalance", lambda self: "one is missing")
    with pytest.raises(RuntimeError, match="does not balance: one is missing"):
        CliRunner().invoke(app, ["ledger", "smoke", "--store", str(store)], catch_exceptions=False)
