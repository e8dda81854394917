"""What is found before a run: lengths, disk, services, and what verl would say of its settings."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain import preflight
from posttrain.preflight import Finding
from posttrain.store import Store
from tests.core.executed import planned
from tests.core.runs import ended, write

RECIPE = """\
recipe: r
seed: 1
backend: cpu
services: {rewards: {verifiers: [answer], url: "http://127.0.0.1:9"}}
data: {sums: {generate: tiny.prompts, rows: 8, thinking: 0%}}
stages:
  base: {kind: adopt, path: base, digest: DIGEST}
  rl:
    kind: rl
    from: base
    sources: {sums: {data: sums, verifier: answer}}
    group: 4
    prompts_per_step: 4
    steps: 2
    lengths: {prompt: 100, response: 28}
""".replace("DIGEST", "d" * 64)


def quick(recipe: Path, *changes: str) -> list[Finding]:
    return preflight.quick(planned(recipe, *changes), Store(recipe.parent / "store"))


@pytest.fixture
def adopted(tmp_path: Path) -> Path:
    """The recipe beside a store that has its base: a model with a context of 128 tokens."""
    recipe = write(tmp_path, RECIPE)
    base = planned(recipe).nodes["base"]
    store = Store(tmp_path / "store")
    draft = store.draft("r", "base", base.key)
    (draft.output / "model").mkdir()
    (draft.output / "model/config.json").write_text(json.dumps({"max_position_embeddings": 128}))
    (draft.output / "model/model.safetensors").write_bytes(bytes(3_000_000))
    store.commit(
        draft, kind="adopt", identity=base.identity, inputs={}, metrics={}, facts={}
    )  # fmt: skip
    return recipe


def test_lengths_that_do_not_fit_the_context_are_a_fault(adopted: Path) -> None:
    assert not [each for each in quick(adopted) if each.fault]
    (fault,) = [each for each in quick(adopted, "stages.rl.lengths.response=29") if each.fault]
    assert fault == Finding(
        "rl", True,
        "prompt and response take up to 129 tokens, the context of base is 128: lower "
        "stages.rl.lengths",
    )  # fmt: skip


def test_what_is_not_known_is_not_judged(tmp_path: Path) -> None:
    assert quick(write(tmp_path, RECIPE), "stages.rl.lengths.response=999999") == []


def test_disk_is_measured_against_what_checkpoints_take(
    adopted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {each.subject: each for each in quick(adopted)}
    assert found["disk"].told.startswith("about 0.02 GB for checkpoints; ")  # 3 MB and 4 x 3 MB
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=15_000_000 - 1))
    short = {each.subject: each for each in quick(adopted)}
    assert short["disk"].fault


def test_the_disk_of_every_kind_that_trains_is_counted(adopted: Path) -> None:
    data = "data.talks={generate: tiny.dialogues, rows: 8}"
    stage = (
        "stages.rl={kind: followups, from: base, data: talks, steps: 1, batch: 1, "
        "optimizer: {adamw: {lr: 1e-4}}}"
    )
    found = {each.subject: each for each in quick(adopted, data, stage)}
    assert found["disk"].told.startswith("about 0.02 GB for checkpoints; ")  # 3 MB and 4 x 3 MB


def test_a_blocked_stage_is_a_fault(tmp_path: Path) -> None:
    recipe = write(tmp_path, RECIPE.replace(f", digest: {'d' * 64}", ""))
    (fault,) = quick(recipe)
    assert (fault.subject, fault.fault) == ("base", True)
    done = ended(tmp_path, "plan", str(recipe))
    assert "blocked: " in done.out
    assert "next: " not in done.out


def test_check_asks_services_and_verl(adopted: Path) -> None:
    refused: dict[str, Any] = {}
    for name, change in {
        "fine": "stages.rl.steps=2",
        "unknown": "stages.rl.overrides={trainer.no_such_key: 1}",
    }.items():
        done = ended(adopted.parent, "plan", str(adopted), "--set", change, "--check", "--json")
        assert done.code == 2, done.err  # The reward service is not there.
        findings = json.loads(done.out)["findings"]
        refused[name] = {each["subject"]: each for each in findings}
    service = refused["fine"]["reward service at http://127.0.0.1:9"]
    assert service["told"] == "does not answer; start it, or change services.rewards"
    assert not refused["fine"]["rl: verl's settings"]["fault"]
    assert refused["unknown"]["rl: verl's settings"]["fault"]
    assert "no setting trainer.no_such_key" in refused["unknown"]["rl: verl's settings"]["told"]
