from pathlib import Path
from typing import Any

import pytest

from posttrain.training import checkpoint, jobs, pretraining
from posttrain.training.examples import documents
from posttrain.training.jobs import Job
from posttrain.training.pretraining import Trainer
from posttrain.training.sft import Start
from tests.training.conftest import World, read

EVERY_TWO = {"at_most": 12, "until": {"suite": "chains", "at_least": "0%", "every": 2}}


def _facts(job: Job) -> dict[str, Any]:
    marker = jobs.finished(job.work)
    assert marker is not None
    return marker.facts


def test_it_learns_and_says_what_ran(base: Start) -> None:
    lines = read(base.path / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert base.facts["steps"] == 12
    assert base.facts["optimised_tokens"] == sum(line["targets"] for line in lines)
    checkpoint.load_model(base.path, base.facts)


@pytest.mark.parametrize("instant", [2, 5, 10])
def test_a_run_stopped_at_any_step_ends_bit_equal(
    instant: int, world: World, base: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.job(tmp_path)
    whole = Trainer._step

    def stopping(self: Trainer, done: int) -> dict[str, float]:
        if done == instant:
            raise KeyboardInterrupt
        return whole(self, done)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            pretraining.run(job)
    assert jobs.finished(job.work) is None
    pretraining.run(job)
    assert _facts(job) == base.facts
    assert read(job.work / "result/metrics.jsonl") == read(base.path / "metrics.jsonl")


def test_the_stop_rule_ends_the_run_within_the_decay(world: World, tmp_path: Path) -> None:
    job = world.job(tmp_path, steps=EVERY_TWO)
    pretraining.run(job)
    assert _facts(job)["steps"] == 8  # The decay covers steps 7 to 12; the first reading is at 8.
    lines = read(job.work / "result/metrics.jsonl")
    assert [line["step"] for line in lines if "accuracy" in line] == [8]


def test_an_unreachable_metric_runs_to_the_cap(world: World, tmp_path: Path) -> None:
    until = EVERY_TWO["until"] | {"at_least": "100%"}  # type: ignore[operator]
    job = world.job(tmp_path, steps=EVERY_TWO | {"until": until})
    pretraining.run(job)
    assert _facts(job)["steps"] == 12


def test_documents_come_in_their_own_order(world: World, tmp_path: Path) -> None:
    job = world.job(tmp_path, steps=20)
    trainer = Trainer(job, world.tokenizer, documents(job.corpus, world.tokenizer, 512))
    rows = [place.row for batch in trainer.plan[:16] for place in batch]
    assert sorted(rows) == list(range(16 * 8))


def test_a_marker_that_disagrees_with_the_result_is_none(world: World, tmp_path: Path) -> None:
    job = world.job(tmp_path, steps=1)
    pretraining.run(job)
    assert jobs.finished(job.work) is not None
    (job.work / "result/metrics.jsonl").write_text("")
    assert jobs.finished(job.work) is None
    (job.work / "done.json").write_text('{"files": {}')
    assert jobs.finished(job.work) is None


def test_divergence_is_an_error(world: World, tmp_path: Path) -> None:
    optimizer = {"adamw": {"lr": 1e30}}
    with pytest.raises(ValueError, match="lower the learning rate"):
        pretraining.run(world.job(tmp_path, optimizer=optimizer))


def test_how_often_the_state_is_saved_changes_no_bit(
    world: World, base: Start, tmp_path: Path
) -> None:
    job = world.job(tmp_path, save_every=1)
    pretraining.run(job)
    assert _facts(job) == base.facts
