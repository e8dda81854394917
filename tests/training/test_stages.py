"""The stages pretrain and sft: their configs at planning time, and the upstream job's life."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from posttrain.evaluation.suites import Answers
from posttrain.launchers import launcher
from posttrain.stages import Progress, StageContext, pretrain, sft
from posttrain.store import Artifact, Record
from posttrain.training import checkpoint, jobs, pretraining
from posttrain.training.sft import Start
from tests.training.conftest import CHAINS, TRAINING, World, read

STEPS = {"at_most": 400, "until": {"suite": "chains", "at_least": "100%", "every": 100}}
LONG = TRAINING | {"data": "corpus", "steps": STEPS, "save_every": 20}
SFT: dict[str, Any] = {
    "from": "base", "steps": 2, "batch": 4, "optimizer": {"adamw": {"lr": "2e-3"}},
}  # fmt: skip


def _artifact(stage: str, path: Path, facts: dict[str, Any] | None = None) -> Artifact:
    record = Record(
        run="test", stage=stage, number=1, kind="data", key=stage, identity={}, inputs={},
        files={}, digest="", metrics={}, facts=facts or {}, created="",
    )  # fmt: skip
    return Artifact(path, record)


class Stage:
    """A pretraining stage's context whose progress is kept, and its job's folder."""

    def __init__(self, world: World, root: Path, **changes: Any) -> None:
        self.heard: list[Progress] = []
        self.work, self.output = root / "work", root / "output"
        self.work.mkdir()
        self.output.mkdir()
        self.context = StageContext(
            name="base", config=pretrain.Config.model_validate(LONG | changes),
            inputs={
                "data.corpus": _artifact("corpus", world.corpus),
                "tokenizer": _artifact("tokenizer", world.root / "tokenizer"),
                "suite.chains": _artifact("corpus", world.corpus),
            },
            output=self.output, work=self.work, seed=3, backend="cpu", services={},
            suites={"chains": CHAINS}, report=self.heard.append,
        )  # fmt: skip

    def pid(self) -> int:
        """The process id of the job submitted last."""
        return int(json.loads((self.work / "job.json").read_text())["pid"])

    def wait_for_state(self) -> None:
        """Until the job has saved its first training state."""
        deadline = time.monotonic() + 100
        while not (self.work / "state.pt").exists():
            assert time.monotonic() < deadline, (self.work / "log").read_text()
            time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(world: World, tmp_path_factory: pytest.TempPathFactory) -> jobs.Marker:
    """What the job of LONG ends with when nothing happens to it."""
    job = world.job(tmp_path_factory.mktemp("whole"), steps=STEPS, save_every=20)
    pretraining.run(job)
    marker = jobs.finished(job.work)
    assert marker is not None
    return marker


def test_a_job_killed_dead_is_submitted_again_and_ends_bit_equal(
    world: World, undisturbed: jobs.Marker, tmp_path: Path
) -> None:
    stage = Stage(world, tmp_path)
    pretrain._submit(stage.context)
    stage.wait_for_state()
    os.kill(stage.pid(), signal.SIGKILL)
    first = stage.pid()
    outcome = pretrain.run(stage.context)
    assert stage.pid() != first
    assert outcome.facts == undisturbed.facts
    assert len(read(stage.output / "metrics.jsonl")) == 400
    checkpoint.load_model(stage.output, outcome.facts)


def test_a_running_job_is_adopted_and_its_progress_relayed(
    world: World, undisturbed: jobs.Marker, tmp_path: Path
) -> None:
    stage = Stage(world, tmp_path)
    pretrain._submit(stage.context)
    stage.wait_for_state()
    first = stage.pid()
    outcome = pretrain.run(stage.context)
    assert stage.pid() == first
    assert outcome.facts == undisturbed.facts
    assert outcome.metrics == undisturbed.metrics
    assert [sign.step for sign in stage.heard] == sorted(sign.step for sign in stage.heard)
    assert stage.heard[-1].step == 400
    assert {(sign.steps, sign.phase) for sign in stage.heard} == {(400, "train")}


def test_a_finished_job_is_not_run_again(world: World, base: Start, tmp_path: Path) -> None:
    stage = Stage(world, tmp_path)
    shutil.copytree(base.path, stage.work / jobs.RESULT)
    jobs.finish(stage.work, {"loss": 1.0}, dict(base.facts))
    assert pretrain.run(stage.context).metrics == {"loss": 1.0}
    assert not (stage.work / "job.json").exists()
    assert (stage.output / "model/config.json").exists()


def test_a_job_that_fails_is_known_by_its_missing_marker(world: World, tmp_path: Path) -> None:
    stage = Stage(world, tmp_path, model=LONG["model"] | {"vocabulary": 300})
    with pytest.raises(RuntimeError, match=r"(?s)without a valid marker.*raise model\.vocabulary"):
        pretrain.run(stage.context)


def test_a_silent_job_is_cancelled(world: World, tmp_path: Path) -> None:
    stage = Stage(world, tmp_path, silence=0.3)
    with pytest.raises(RuntimeError, match=r"no progress for 0\.3 s and was cancelled"):
        pretrain.run(stage.context)
    assert launcher("local").adopt(stage.work) is None


def test_planning_needs_no_torch() -> None:
    code = (
        "import sys; from posttrain.stages import pretrain, sft;"
        "heavy = {'torch', 'transformers', 'verl', 'ray'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_pretrain_config_names_what_it_needs() -> None:
    until = {"at_most": 900, "until": {"suite": "chains", "at_least": "98%"}}
    config = pretrain.Config.model_validate(LONG | {"steps": until, "threads": 2})
    assert config.inputs() == {"data.corpus": "corpus", "tokenizer": "tokenizer"}
    assert config.suites() == ("chains",)
    assert config.cores() == 2
    assert config.steps.at_most == 900


def test_an_sft_config_takes_one_name_or_shares() -> None:
    one = sft.Config.model_validate(SFT | {"data": "dialogues"})
    assert one.inputs() == {"from": "base", "data.dialogues": "dialogues"}
    several = SFT | {"data": {"documents": "70%", "dialogues": "30%"}}
    found = sft.Config.model_validate(several)
    assert found.model_dump()["data"] == {"documents": 0.7, "dialogues": 0.3}
    assert sft.Config.model_validate(json.loads(one.model_dump_json(by_alias=True))) == one


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": {}}, {"data": {"a": "70%", "b": "40%"}}, {"data": {"a": "100%", "b": "0%"}},
        {"data": "a", "lr": 1e-3}, {"data": "a", "context": {"rope": {"theta": 800}}},
        {"data": "a", "ranks": 3, "sequence_parallel": 2}, {"data": "a", "packing": {}},
        {"data": "a", "packing": {"documents": 4, "oversize": "drop"}},
    ],
)  # fmt: skip
def test_wrong_sft_configs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        sft.Config.model_validate(SFT | wrong)


def test_an_unknown_launcher_is_refused_when_planning() -> None:
    with pytest.raises(ValidationError, match="unknown launcher 'moon'"):
        pretrain.Config.model_validate(LONG | {"launcher": "moon"})


def test_the_sft_stage_commits_a_checkpoint(world: World, base: Start, tmp_path: Path) -> None:
    heard: list[Progress] = []
    for name in ("work", "output"):
        (tmp_path / name).mkdir()
    outcome = sft.run(
        StageContext(
            name="sft", config=sft.Config.model_validate(SFT | {"data": "dialogues"}),
            inputs={
                "from": _artifact("base", base.path, dict(base.facts)),
                "data.dialogues": _artifact("dialogues", world.dialogues),
            },
            output=tmp_path / "output", work=tmp_path / "work", seed=3, backend="cpu",
            services={}, suites={}, report=heard.append,
        )
    )  # fmt: skip
    assert [(sign.step, sign.steps) for sign in heard] == [(1, 2), (2, 2)]
    assert outcome.metrics["loss"] > 0
    checkpoint.load_model(tmp_path / "output", outcome.facts)


def test_a_stop_rule_on_prompts_is_refused(world: World, tmp_path: Path) -> None:
    until = {"at_most": 9, "until": {"suite": "answers", "at_least": "98%"}}
    stage = Stage(world, tmp_path, steps=until)
    suites = {"answers": Answers(kind="answers", data="sums.holdout")}
    with pytest.raises(ValueError, match="of kind answers; a base model"):
        pretrain.run(replace(stage.context, suites=suites))
