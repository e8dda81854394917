"""The command line: probe, score and reverify against real services, and its one-line errors."""

import asyncio
import json
import signal
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

from rewards import cli, rescoring
from rewards.ledger import Ledger, read
from rewards.schema import Item, Response, Verdict, abstained, failed, scored
from rewards.serve import ServeOptions
from tests.rewards.distant import DOWN
from tests.rewards.endpoint import Endpoint, silence, standing
from tests.rewards.service import ROOT, Service, serving, start
from tests.waiting import eventually

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
    assert (code, err) == (0, "rewards: answer is ready\n")
    assert "serving at" not in out
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_a_service_is_probed(service: Service) -> None:
    code, out, err = rewards("probe", service.url)
    assert (code, err) == (0, "")
    assert "answer" in out
    assert "ms" in out
    assert f"--url {service.url}" in out


def test_a_service_that_is_not_ready_is_told_with_its_reason(tmp_path: Path) -> None:
    process = start(tmp_path, "--verifiers", "distant=tests.rewards.distant", env={DOWN: str(ROOT)})
    try:
        assert eventually((tmp_path / "port").exists)
        url = f"http://127.0.0.1:{int((tmp_path / 'port').read_text())}"
        assert eventually(lambda: "nobody answers" in rewards("probe", url)[1])
        code, out, err = rewards("probe", url)
        assert (code, err) == (4, f"error: {url} is not ready; the reasons are above\n")
        assert "distant is not ready: canary right: failed (sandbox_down: nobody answers)" in out
        file = write(tmp_path / "items.jsonl", [{**ITEMS[0], "verifier": "distant"}])
        code, out, err = rewards("score", file, "--url", url, "--patience", "5")
        assert code == 4
        assert f"{url} is not ready yet; an item waits up to 5 s (--patience)" in err
        assert "distant failed sandbox_down, the first: right: nobody answers" in out
    finally:
        process.kill()
        process.communicate()


def test_what_the_service_remembers_is_no_proof(service: Service) -> None:
    """A bug: the canaries' verdicts were remembered, so probes passed whatever had become of it."""
    for _ in range(2):
        before = service.counted("rewards_cache_hits_total")
        assert rewards("probe", service.url)[0] == 0
        asked = ["--verifiers", "math", "--probes", "1", "--url", service.url]
        rewards("audit", *asked)
        assert service.counted("rewards_cache_hits_total") == before


def test_a_wrong_path_leads_to_the_base_url(service: Service) -> None:
    code, _, err = rewards("probe", f"{service.url}/v1/score")
    assert code == 4
    assert f"give the base URL, {service.url}\n" in err


def test_a_refused_token_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with serving(tmp_path, "--token-file", str(tmp_path / "token"), token="secret") as guarded:
        file = write(tmp_path / "items.jsonl", ITEMS[:1])
        for command in (["probe"], ["audit", "--url"], ["score", file, "--url"]):
            code, _, err = rewards(*command, guarded.url)
            assert (code, err) == (
                2, f"error: {guarded.url} refuses the token; set REWARDS_TOKEN\n"
            )  # fmt: skip


def test_where_nothing_is_scored_the_first_reason_is_told(service: Service, tmp_path: Path) -> None:
    """A byte order mark before the first line is none of the reasons."""
    file = tmp_path / "items.jsonl"
    file.write_text("\ufeff" + json.dumps({**ITEMS[0], "gold": None}) + "\n")
    code, out, err = rewards("score", file, "--url", service.url)
    said = "right: gold is missing"
    assert (code, err) == (
        1, f"error: nothing is scored: 1 of 1 abstained; the first: {said}\n"
    )  # fmt: skip
    assert f"answer abstained bad_gold, the first: {said}" in out
    assert f"--ledger LEDGER --url {service.url} (then reverify)" in out


def test_an_interrupted_run_says_how_far_it_came(tmp_path: Path) -> None:
    async def body() -> tuple[int | None, str]:
        async with standing(silence) as endpoint:
            file = write(tmp_path / "items.jsonl", ITEMS[:1])
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "rewards", "score", str(file), "--url", endpoint.url,
                cwd=ROOT, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            while not endpoint.lots:
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, err = await asyncio.wait_for(process.communicate(), 30)
            return process.returncode, err.decode()

    code, err = asyncio.run(body())
    draft = tmp_path / "items.verdicts.jsonl.part"
    assert (code, err) == (1, f"error: interrupted: 0 of 1 scored; in {draft}\n")


def test_records_of_verifiers_that_were_not_served_cannot_flip(
    service: Service, tmp_path: Path
) -> None:
    items = [Item(id=name, verifier=name, answers=["4"], gold=["4"]) for name in ("answer", "odd")]
    verdicts = [scored(items[0], 1.0), abstained(items[1], "unknown_verifier", "served here: ...")]
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append(items, verdicts)
    code, out, _ = rewards("reverify", tmp_path / "ledger", "--url", service.url)
    assert code == 0
    assert "1 records are left out: their verifier was not served" in out
    assert "no verdict flipped, of 1" in out


def test_a_missing_extra_is_named() -> None:
    fault = ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
    told, code = cli._told(fault)
    assert (told, code) == (
        "there is no module uvicorn here; this needs pip install '.[rewards]'", 2
    )  # fmt: skip


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
    code, out, _ = rewards(*asked, "--max-false-accept", "0.5")
    assert (code, out.splitlines()[-1]) == (0, "holds: at most 50 % false accepts")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["score", "none.jsonl"], 2, "none.jsonl: cannot be read (No such file or directory)"),
        (["score", "{bad}"], 2, "bad.jsonl:2: answers.0: Input should be a valid string"),
        (["score", "{broken}"], 2, "broken.jsonl:1: no JSON: EOF while parsing a value at col"),
        (["score", "{list}"], 2, "list.jsonl:1: "),
        (["score", "{empty}"], 2, "holds nothing to score"),
        (["score", "{strange}"], 2, "strange.jsonl:2: oracle: not built in; start a service"),
        (["score", "{good}", "--out", "."], 2, ". is a folder; give --out a file"),
        (["score", "{good}", "--url", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1: "),
        (["score", "{good}", "--out", "no/such/folder"], 2, "no/such is no folder"),
        (["score", "{good}", "--url", "localhost"], 2, "'localhost' is no URL"),
        (["reverify", "none"], 2, "none is no ledger"),
        (["probe", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1: "),
        (["probe"], 2, "Missing argument 'URL'. (see --help)"),
        (["serve", "--workers", "0"], 2, "Invalid value for '--workers'"),
        (["serve", "--prot", "1"], 2, "No such option: --prot"),
        (["audit", "--verifiers", "oracle"], 2, "no probes for 'oracle'"),
        (["audit", "--url", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1: "),
        (["audit", "--out", "."], 2, ". is a folder; give --out a file"),
        (["judge"], 2, "No such command 'judge'."),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, message: str,
) -> None:  # fmt: skip
    named = {
        "good": ITEMS[:1], "bad": [ITEMS[0], {**ITEMS[0], "answers": [4]}], "list": [ITEMS[:2]],
        "empty": [], "strange": [ITEMS[0], {**ITEMS[0], "verifier": "oracle"}],
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
    assert cli.PATIENCE == rescoring.PATIENCE


@pytest.mark.parametrize("module", ["posttrain", "rewards"])
def test_the_commands_cost_no_heavy_import(module: str) -> None:
    heavy = {"torch", "ray", "fastapi", "aiohttp", "pyarrow", "math_verify", "rewards.verifiers"}
    code = f"import sys, {module}.cli; assert not set({sorted(heavy)}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
