"""The command line: probe, score and reverify against real services, and its one-line errors."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic_core import from_json

from rewards import cli
from rewards.ledger import Ledger, read
from rewards.schema import Item, Response, Verdict, abstained, failed, scored
from rewards.serve import ServeOptions
from tests.rewards.endpoint import Endpoint, standing
from tests.rewards.service import ROOT, Service

ITEMS = [
    {"id": "right", "verifier": "answer", "answers": ["4.0"], "gold": ["4"]},
    {"id": "wrong", "verifier": "answer", "answers": ["5"], "gold": ["4"]},
    {"id": "none", "verifier": "answer", "answers": ["5"], "gold": []},
    {"id": "two", "answers": ["4"], "checks": [{"verifier": "answer", "gold": ["4"]}]},
]


def rewards(*arguments: Any, module: str = "rewards") -> tuple[int, str, str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def write(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_is_scored_and_its_ledger_reverified(service: Service, tmp_path: Path) -> None:
    file, ledger = write(tmp_path / "items.jsonl", ITEMS), tmp_path / "ledger"
    code, out, err = rewards("score", file, "--url", service.url, "--ledger", ledger)
    assert (code, err) == (0, "")
    assert "answer: mean score 0.5000 over 2" in out
    assert f"next: posttrain rewards reverify {ledger}" in out
    lines = (tmp_path / "items.verdicts.jsonl").read_text().splitlines()
    verdicts = [Verdict.model_validate_json(line) for line in lines]
    assert [v.id for v in verdicts] == ["right", "wrong", "none", "two"]
    assert [v.score for v in verdicts] == [1.0, 0.0, None, 1.0]
    records = list(read(ledger))
    assert [record.verdict for record in records] == verdicts
    assert all(len(record.digests["answer"]) == 64 for record in records)
    assert {record.source for record in records} == {"items.jsonl"}
    code, out, _ = rewards("rewards", "reverify", ledger, "--url", service.url, module="posttrain")
    assert (code, out.splitlines()[-1]) == (0, "no verdict flipped, of 4")


def test_flips_are_reported_and_written(service: Service, tmp_path: Path) -> None:
    """A ledger of another version: one verdict was wrong, one failed, one abstained."""
    item = Item(id="up", verifier="answer", answers=["4.0"], gold=["4"])
    items = [item.model_copy(update={"id": name}) for name in ("up", "lost", "new", "same")]
    verdicts = [
        scored(items[0], 0.0, "mismatch"), failed(items[1], "overload", "full"),
        abstained(items[2], "bad_gold", "?"), scored(items[3], 1.0),
    ]  # fmt: skip
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append(items, verdicts, digests={"answer": "old"})
    code, out, err = rewards("reverify", tmp_path / "ledger", "--url", service.url)
    assert code == 1
    assert "error: 2 of 4 verdicts flipped" in err
    assert "1 records are neither" in out
    flips = [from_json(line) for line in (tmp_path / "ledger" / "flips.jsonl").open("rb")]
    assert [flip["id"] for flip in flips] == ["up", "new"]
    assert flips[0]["old"] == {
        "status": "scored", "score": 0.0, "reason": "mismatch", "digests": {"answer": "old"}
    }  # fmt: skip
    assert (flips[0]["new"]["status"], flips[0]["new"]["score"]) == ("scored", 1.0)
    assert len(flips[0]["new"]["digests"]["answer"]) == 64


def test_without_a_url_a_service_is_started_for_the_purpose(tmp_path: Path) -> None:
    file = write(tmp_path / "items.jsonl", ITEMS[:2])
    code, out, err = rewards("score", file, "--workers", "1", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "serving at" not in out
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_a_service_is_probed(service: Service) -> None:
    code, out, err = rewards("probe", service.url)
    assert (code, err) == (0, "")
    assert "answer" in out
    assert "ms" in out
    assert f"--url {service.url}" in out


def test_what_has_no_verdict_is_told_by_the_exit_code(tmp_path: Path) -> None:
    async def fail(endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        (item,) = endpoint.lots[-1]
        assert isinstance(item, Item)
        reply = Response(verdicts=[failed(item, "deadline", "late")])
        return web.Response(body=reply.model_dump_json(), content_type="application/json")

    async def body() -> tuple[int, str, str]:
        async with standing(fail) as endpoint:
            file = write(tmp_path / "items.jsonl", ITEMS[:1])
            return await asyncio.to_thread(rewards, "score", file, "--url", endpoint.url)

    code, out, err = asyncio.run(body())
    assert (code, err) == (4, "error: 1 of 1 items have no verdict; the reasons are above\n")
    assert "deadline" in out
    assert "mean score" not in out


def test_an_audit_is_bounded(service: Service, tmp_path: Path) -> None:
    asked = ["audit", "--url", service.url, "--verifiers", "answer", "--probes", 20]
    code, out, err = rewards(*asked, "--out", tmp_path / "report.json")
    assert (code, err) == (0, "")
    assert out.startswith("answer false_accepts=0/")
    assert json.loads((tmp_path / "report.json").read_text())["probes"] == 20
    code, _, err = rewards(*asked, "--max-false-accept", "0.001")
    assert (code, err.count("\n")) == (1, 1)
    assert "answer: up to " in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["score", "none.jsonl"], 2, "none.jsonl: cannot be read (No such file or directory)"),
        (["score", "{bad}"], 2, "bad.jsonl:2: answers.0: Input should be a valid string"),
        (["score", "{broken}"], 2, "broken.jsonl:1: no JSON"),
        (["score", "{list}"], 2, "list.jsonl:1: "),
        (["score", "{empty}"], 2, "holds nothing to score"),
        (["score", "{strange}"], 2, "oracle: not built in; start a service"),
        (["score", "{good}", "--out", "no/such/folder"], 2, "no/such is no folder"),
        (["score", "{good}", "--url", "localhost"], 2, "'localhost' is no URL"),
        (["reverify", "none"], 2, "none is no ledger"),
        (["probe", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1: "),
        (["probe"], 2, "Missing argument 'URL'. (see --help)"),
        (["serve", "--workers", "0"], 2, "Invalid value for '--workers'"),
        (["serve", "--prot", "1"], 2, "No such option: --prot"),
        (["audit", "--verifiers", "oracle"], 2, "no probes for 'oracle'"),
        (["judge"], 2, "No such command 'judge'."),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, message: str,
) -> None:  # fmt: skip
    named = {
        "good": ITEMS[:1], "bad": [ITEMS[0], {**ITEMS[0], "answers": [4]}], "list": [ITEMS[:2]],
        "empty": [], "strange": [{**ITEMS[0], "verifier": "oracle"}],
    }  # fmt: skip
    files = {name: write(tmp_path / f"{name}.jsonl", rows) for name, rows in named.items()}
    files["broken"] = tmp_path / "broken.jsonl"
    files["broken"].write_text('{"id": \n')
    given = [argument.format(**files) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["rewards", *given])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    err = capsys.readouterr().err
    assert ended.value.code == code
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_the_defaults_are_those_of_the_service() -> None:
    given = {name: each.default for name, each in signature(cli.serve).parameters.items()}
    given["verifiers"] = ServeOptions().verifiers
    assert given == {each.name: getattr(ServeOptions(), each.name) for each in fields(ServeOptions)}


@pytest.mark.parametrize("module", ["posttrain", "rewards"])
def test_the_commands_cost_no_heavy_import(module: str) -> None:
    heavy = {"torch", "ray", "fastapi", "aiohttp", "pyarrow", "math_verify", "rewards.verifiers"}
    code = f"import sys, {module}.cli; assert not set({sorted(heavy)}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
