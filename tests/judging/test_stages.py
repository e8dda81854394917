"""The stages charter, generate, score and calibrate, each run as the controller runs it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from posttrain.data import manners
from posttrain.judging import completions
from posttrain.judging.opinions import Opinion
from posttrain.stages import StageConfig, StageContext, calibrate, charter, generate, module, score
from posttrain.store import Artifact, Record
from posttrain.training import checkpoint
from tests.evaluation.tiny_model import chat_format, model
from tests.rewards.service import Service, serving

CHARTERS = Path("recipes/charters").absolute()
RULES = {"verifier": "rules", "charter": "manual"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service"), "--verifiers", "rules") as found:
        yield found


def artifact(path: Path, facts: Mapping[str, Any] | None = None) -> Artifact:
    record = Record(
        run="test", stage="x", number=1, kind="x", key="x", identity={}, inputs={}, files={},
        digest="", metrics={}, facts=dict(facts or {}), created="",
    )  # fmt: skip
    return Artifact(path, record)


def run(
    kind: str, config: StageConfig, inputs: Mapping[str, Artifact], root: Path, url: str = ""
) -> tuple[Artifact, dict[str, float]]:
    output, work = root / kind, root / f"{kind}-work"
    output.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    context: StageContext[Any] = StageContext(
        name=kind, config=config, inputs=inputs, output=output, work=work, seed=3, backend="cpu",
        services={"rewards": url}, suites={}, report=lambda sign: None,
    )  # fmt: skip
    outcome = module(kind).run(context)
    return artifact(output, outcome.facts), outcome.metrics


def rows(root: Path, content: list[dict[str, Any]]) -> Artifact:
    root.mkdir(exist_ok=True)
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    return artifact(root)


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    placed = charter.Config(charter="tiny.md").placed("manual", CHARTERS / "recipe.yaml")
    found, _ = run("charter", placed, {}, tmp_path_factory.mktemp("manual"))
    return found


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Two completions of three prompts by an untrained model."""
    root = tmp_path_factory.mktemp("drafts")
    facts = checkpoint.save_model(model(900), chat_format().tokenizer, root / "start" / "model")
    prompts = rows(root / "requests", manners.requests(1, 3, "usual"))
    config = generate.Config.model_validate(
        {"from": "start", "data": "requests", "n": 2, "max_new_tokens": 5}
    )
    inputs = {"from": artifact(root / "start", facts), "data.requests": prompts}
    first, metrics = run("generate", config, inputs, root)
    assert metrics["completions"] == 6
    kept = (first.path / completions.COMPLETIONS).read_bytes()
    again, _ = run("generate", config, inputs, root)
    assert (again.path / completions.COMPLETIONS).read_bytes() == kept
    return again


def test_a_charter_is_an_artifact_whose_digest_decides_the_key(manual: Artifact) -> None:
    placed = charter.Config(charter="tiny.md").placed("manual", CHARTERS / "recipe.yaml")
    assert charter.load(manual) == placed.read()
    assert placed.digests() == {"charter": manual.record.facts["sha256"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "charter house.md: there is no such file"),
        ("So.", "charter house.md: line 1: a charter begins"),
        ('---\ncharter: a\nversion: "1"\n---\n', "charter house.md: there is no article"),
    ],
)
def test_a_charter_that_cannot_be_used_is_told_when_planning(
    tmp_path: Path, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / "house.md").write_text(text)
    with pytest.raises(ValueError, match=told):
        charter.Config(charter="house.md").placed("manual", tmp_path / "recipe.yaml")


def test_completions_are_read_back_as_they_were_parsed(drafts: Artifact) -> None:
    chat = chat_format()
    lines = list(completions.read(drafts.path / completions.COMPLETIONS))
    assert [(line["row"], line["sample"]) for line in lines] == [
        (row, sample) for row in range(3) for sample in range(2)
    ]
    for line in lines:
        assert completions.turn(line) == chat.parse(line["ids"])


def test_completions_are_scored(
    drafts: Artifact, manual: Artifact, service: Service, tmp_path: Path
) -> None:
    config = score.Config.model_validate({"completions": "drafts", "judge": RULES})
    found, metrics = run(
        "score", config, {"completions": drafts, "charter": manual}, tmp_path, service.url
    )
    lines = list(completions.read(found.path / completions.SCORES))
    assert [line["score"] for line in lines] == [0.0] * 6
    assert metrics == {"score": 0.0, "unjudged": 0.0}
    assert found.record.facts["judge"]["charter_sha256"] == manual.record.facts["sha256"]


def test_faults_are_no_scores_and_stop_the_stage_above_a_share() -> None:
    found = [Opinion(1.0), Opinion(None, fault="down")]
    assert completions.check(found, 0.5) == {"score": 1.0, "unjudged": 0.5}
    with pytest.raises(RuntimeError, match=r"1 of 2 completions were not judged .* down"):
        completions.check(found, 0.4)


def test_the_rule_judge_is_found_good_enough(
    manual: Artifact, service: Service, tmp_path: Path
) -> None:
    data = rows(tmp_path / "manners", manners.dialogues(1, 6))
    asked = {"data": "manners", "judge": RULES, "rows": 6, "rungs": 3}
    inputs = {"data.manners": data, "charter": manual}
    config = calibrate.Config.model_validate({**asked, "require": {"spearman": 0.9}})
    found, metrics = run("calibrate", config, inputs, tmp_path, service.url)
    assert metrics["spearman"] == metrics["kendall"] == pytest.approx(1)
    assert json.loads((found.path / "calibration.json").read_text()) == metrics


def test_a_judge_below_the_bar_fails_its_calibration(
    manual: Artifact, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that likes everything."""

    def content(self: Any, prompts: Any, turns: Any) -> list[Opinion]:
        return [Opinion(1.0, grade=1.0)] * len(turns)

    monkeypatch.setattr("posttrain.judging.opinions.ServiceJudge.opinions", content)
    data = rows(tmp_path / "manners", manners.dialogues(1, 6))
    asked = {"data": "manners", "judge": RULES, "rungs": 3, "require": {"spearman": 0.5}}
    config = calibrate.Config.model_validate(asked)
    inputs = {"data.manners": data, "charter": manual}
    with pytest.raises(RuntimeError, match=r"spearman is 0\.00, required is 0\.50"):
        run("calibrate", config, inputs, tmp_path, service.url)
