"""Filter: verdicts of an auxiliary checkpoint choose prompts, by a real service; weights stay."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posttrain import auxiliary
from posttrain.data import manifest, tiny
from posttrain.evaluation.capability import Sampling, Trial, trials
from posttrain.stages import Progress, StageContext, filter
from posttrain.store import Artifact, Store
from posttrain.training.checkpoint import save_model
from tests.evaluation import tiny_model
from tests.rewards.service import Service, serving

CHAT = tiny_model.chat_format()
MODEL = tiny_model.model(len(CHAT.tokenizer))
ROWS = tiny.prompts(0, 6, 1.0)
HOW = Sampling("answer", attempts=2, thinking=False, temperature=1.0, max_new_tokens=4)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, "--verifiers", "answer", "--workers", "1") as found:
        yield found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with an auxiliary checkpoint and prompts, of which the third is held out."""
    store = Store(tmp_path_factory.mktemp("filter") / "store")
    draft = store.draft("r", "aux", "k-aux")
    facts = save_model(MODEL, CHAT.tokenizer, draft.output / "model")
    store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts=facts)
    draft = store.draft("r", "prompts", "k-prompts")
    manifest.write(draft.output, {"train": ROWS, "holdout": ROWS[:1]}, licence="CC-BY-4.0")
    store.commit(draft, kind="data", identity={}, inputs={}, metrics={}, facts={})
    return store


def context(store: Store, tmp_path: Path, url: str, **asked: Any) -> StageContext[filter.Config]:
    for name in ("output", "work"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    config = filter.Config.model_validate(
        {"from": "aux", "data": "prompts", "verifier": "answer", "attempts": 2, "temperature": 1.0,
         "max_new_tokens": 4, "keep": {"least": "0%", "most": "50%"}, **asked}
    )  # fmt: skip
    return StageContext(
        name="able", config=config, output=tmp_path / "output", work=tmp_path / "work", seed=1,
        inputs={"from": store.get("r/aux@1"), "data.prompts": store.get("r/prompts@1")},
        backend="cpu", services={"rewards": url}, suites={}, report=lambda progress: None,
    )  # fmt: skip


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_prompts_stay_by_the_share_of_attempts_that_solve_them(
    store: Store, tmp_path: Path, service: Service
) -> None:
    """An untrained model solves none: all are within 0 to 50 %, and other splits pass."""
    asked = context(store, tmp_path, service.url)
    outcome = filter.run(asked)
    assert told(asked.output / "train.jsonl") == ROWS
    assert told(asked.output / "holdout.jsonl") == ROWS[:1]
    assert manifest.read(asked.output).licence == "CC-BY-4.0"
    assert outcome.facts == {"auxiliary": "r/aux@1"}
    counts = {key: outcome.metrics[key] for key in ("prompts", "attempts", "unscored", "kept")}
    assert counts == {"prompts": 6, "attempts": 12, "unscored": 0, "kept": 6}
    assert told(asked.output / "trials.jsonl")[5] == {
        "row": 6, "attempts": 2, "solved": 0, "unscored": 0, "kept": True,
    }  # fmt: skip


def test_when_no_prompt_stays_there_is_no_data(
    store: Store, tmp_path: Path, service: Service
) -> None:
    with pytest.raises(ValueError, match=r"no prompt of r/prompts@1 was solved in 50% to 100%"):
        filter.run(context(store, tmp_path, service.url, keep={"least": "50%", "most": "100%"}))


def test_attempts_without_a_score_stop_the_stage(
    store: Store, tmp_path: Path, service: Service
) -> None:
    """A gold answer that no verifier can read: what the checkpoint can do is not known."""
    asked = context(store, tmp_path, service.url, attempts=1)
    manifest.write(tmp_path, {"train": [{**row, "gold": 7} for row in ROWS]})
    data = replace(asked.inputs["data.prompts"], path=tmp_path)
    asked = replace(asked, inputs={**asked.inputs, "data.prompts": data})
    with pytest.raises(RuntimeError, match=r"6 of 6 attempts got no score, more than 2\.0%"):
        filter.run(asked)
    assert not (asked.output / "train.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": []}, "train.jsonl: row 2 has no messages with a gold answer"),
        ({"verifier": "math"}, "row 2 is for verifier 'math', the stage asks for 'answer'"),
    ],
)
def test_a_prompt_that_cannot_be_verified_is_named(
    store: Store, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    asked = context(store, tmp_path, "http://127.0.0.1:9")
    manifest.write(tmp_path, {"train": [ROWS[0], {**ROWS[1], **change}]})
    data = replace(asked.inputs["data.prompts"], path=tmp_path)
    with pytest.raises(ValueError, match=message):
        filter.run(replace(asked, inputs={**asked.inputs, "data.prompts": data}))


def test_a_stage_that_was_killed_goes_on_where_it_was(
    store: Store, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is not done again, and the result is that of an undisturbed run."""
    monkeypatch.setattr(filter, "_CHUNK", 2)
    whole = context(store, tmp_path / "whole", service.url)
    halted = context(store, tmp_path / "halted", service.url)

    def halt(progress: Progress) -> None:
        if progress.step == 4:
            raise KeyboardInterrupt

    filter.run(whole)
    with pytest.raises(KeyboardInterrupt):
        filter.run(replace(halted, report=halt))
    kept = {path.name: path.stat().st_mtime_ns for path in halted.work.iterdir()}
    filter.run(halted)
    assert len(kept) == 2
    assert kept.items() <= {p.name: p.stat().st_mtime_ns for p in halted.work.iterdir()}.items()
    for name in ("train.jsonl", "trials.jsonl"):
        assert (halted.output / name).read_bytes() == (whole.output / name).read_bytes()


def verdicts(*scores: float | None) -> Any:
    """A judge that gives these scores in turn."""

    def judge(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"id": item["id"], "status": "failed" if score is None else "scored", "score": score}
            for item, score in zip(items, scores, strict=True)
        ]

    return judge


def test_attempts_are_counted_by_prompt() -> None:
    judge = verdicts(1.0, 0.0, None, 1.0, 0.99, 0.0)
    found = trials(MODEL, CHAT, ROWS[:3], HOW, seed=1, judge=judge)
    assert found == [Trial(2, 1, 0), Trial(2, 1, 1), Trial(2, 0, 0)]
    keep = filter.Keep.model_validate({"least": "50%", "most": "50%"})
    assert [filter._stays(trial._asdict(), keep) for trial in found] == [True, False, False]


def test_a_prompt_that_does_not_fit_is_refused() -> None:
    how = replace(HOW, max_new_tokens=MODEL.config.max_position_embeddings)
    with pytest.raises(ValueError, match="the model's context has"):
        trials(MODEL, CHAT, ROWS[:1], how, seed=1, judge=verdicts())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0}, "attempts at temperature 0 are all the same"),
        ({"keep": {"least": "60%", "most": "50%"}}, r"least \(0.6\) is above most \(0.5\)"),
        ({"keep": None}, "keep"),
    ],
)
def test_what_chooses_is_stated(
    store: Store, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        context(store, tmp_path, "", **change)


def committed(
    store: Store, stage: str, kind: str, facts: dict[str, Any], **inputs: str
) -> Artifact:
    draft = store.draft("r", stage, f"k-{stage}")
    (draft.output / "w").write_text(stage)
    return store.commit(draft, kind=kind, identity={}, inputs=inputs, metrics={}, facts=facts)


def test_an_auxiliary_checkpoint_is_never_promoted(tmp_path: Path) -> None:
    """Nor is what was trained from it; what was trained on the data it chose may be."""
    store = Store(tmp_path / "store")
    base = committed(store, "base", "pretrain", {})
    aux = committed(store, "aux", "sft", {}, **{"from": base.address})
    after = committed(store, "after", "rl", {}, **{"from": aux.address})
    assert auxiliary.fault(store, aux) is None
    able = committed(store, "able", "filter", {"auxiliary": aux.address}, **{"from": aux.address})
    main = committed(store, "main", "sft", {}, **{"from": base.address, "data.able": able.address})
    assert "r/aux@1 is an auxiliary checkpoint" in str(auxiliary.fault(store, aux))
    assert "r/after@1 was trained from an auxiliary" in str(auxiliary.fault(store, after))
    assert auxiliary.fault(store, base) is None
    among = {"from.main": main.address, "from.aux": aux.address}
    assert auxiliary.fault(store, committed(store, "chosen", "select", {}, **among))
    assert auxiliary.fault(store, main) is None
    store.remove(able)  # What it chose is known as long as its record is.
    assert "r/after@1 was trained from an auxiliary" in str(auxiliary.fault(store, after))
