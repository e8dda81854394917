"""A real vLLM engine as the sampler of SDPO and online DPO on a tiny model; it is started once."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from posttrain.data import manners, tiny
from posttrain.objectives.config import DPOConfig
from posttrain.training import checkpoint, online
from posttrain.training.completions import token_log_probs
from posttrain.training.engine import Engine
from posttrain.training.model import ModelConfig, build
from posttrain.training.policy import Policy
from posttrain.training.process import single_process_group
from posttrain.training.rollouts import opening, vllm
from posttrain.training.rollouts.config import VllmConfig
from posttrain.training.rollouts.source import Response, document
from posttrain.training.rollouts.vllm import EngineLost, Vllm
from posttrain.training.sft import Start
from tests.training.conftest import TRAINING, World, read, write
from tests.training.test_completions import ADAMW, CONSTANT
from tests.training.test_online import ONLINE, STEPS, Brief
from tests.training.test_sdpo import CHARTER, RuleJudge, settings, training

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CLOSE = 1e-3
PROMPTS = [[1, 30 + place, *range(40, 44 + place)] for place in range(24)]
ROLLOUTS = {"engine": "vllm", "gap": CLOSE}


@pytest.fixture(scope="module")
def base(world: World, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Random weights; vLLM's attention on CPUs wants heads of at least 32."""
    config = ModelConfig.model_validate(
        {**TRAINING["model"], "hidden": 64, "initializer": {"deviation": 0.2}}
    )
    root = tmp_path_factory.mktemp("start")
    made = build(config, world.tokenizer, 3)
    return Start(root, checkpoint.save_model(made, world.tokenizer, root / "model"))


@pytest.fixture(scope="module")
def rollouts(base: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """An engine of the checkpoint."""
    with vllm.started(
        VllmConfig(engine="vllm"), base.path / "model", prompt=200, response=8, temperature=0.7,
        stop_ids=[5], seed=1, backend="cpu", work=tmp_path_factory.mktemp("engine"),
    ) as found:  # fmt: skip
        yield found


@pytest.fixture
def shared(rollouts: Vllm, monkeypatch: pytest.MonkeyPatch) -> Vllm:
    """The same engine for a stage, at the stage's temperature and stop ids."""

    @contextmanager
    def started(
        config: Any, model: Any, *, response: int, temperature: float, stop_ids: Any, **_: Any
    ) -> Iterator[Vllm]:
        rollouts._longest, rollouts._temperature = response, temperature
        rollouts._stop_ids = stop_ids
        yield rollouts

    monkeypatch.setattr(opening.vllm, "started", started)
    return rollouts


def _furthest(engine: Engine, found: list[Response]) -> float:
    documents = [document(*each) for each in zip(PROMPTS, (r.ids for r in found), strict=True)]
    ours = token_log_probs(engine, documents, temperature=0.7)
    return max(
        abs(left - right)
        for response, values in zip(found, ours, strict=True)
        for left, right in zip(response.log_probs, values, strict=True)
    )


def test_the_engine_follows_the_trainers_weights(rollouts: Vllm, base: Start) -> None:
    with single_process_group("cpu"):
        model = checkpoint.load_model(base.path, base.facts)
        engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 1, "cpu")
        first = rollouts.respond(PROMPTS, 3)
        assert _furthest(engine, first) < CLOSE
        with torch.no_grad():
            for parameter in engine.module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        assert _furthest(engine, rollouts.respond(PROMPTS, 3)) > 10 * CLOSE
        rollouts.follow(engine.weights())
        second = rollouts.respond(PROMPTS, 3)
        assert _furthest(engine, second) < CLOSE
    assert [each.ids for each in second] != [each.ids for each in first]
    assert [each.ids for each in second] == [each.ids for each in rollouts.respond(PROMPTS, 3)]
    for each in second:
        assert 1 <= len(each.ids) <= 8
        assert len(each.ids) == 8 or each.ids[-1] == 5
        assert 5 not in each.ids[:-1]


def test_weights_that_lack_one_are_refused(rollouts: Vllm) -> None:
    with pytest.raises(RuntimeError, match="the file of weights lacks"):
        rollouts.follow({"model.norm.weight": torch.ones(64)})


def test_online_dpo_trains_on_what_the_engine_samples(
    shared: Vllm, base: Start, tmp_path: Path
) -> None:
    for name in ("work", "output"):
        (tmp_path / name).mkdir()
    asked = ONLINE.model_validate({**ONLINE.model_dump(), "rollouts": ROLLOUTS})
    _, facts = online.align(
        Policy.load(base.path, base.facts), base.path,
        write(tmp_path / "prompts.jsonl", tiny.prompts(3, 10, 0.0)), DPOConfig(beta=0.1),
        STEPS.model_copy(update={"steps": 3}), asked, Brief(), 3, backend="cpu",
        work=tmp_path / "work", output=tmp_path / "output", report=lambda *told: None,
    )  # fmt: skip
    lines = read(tmp_path / "output/metrics.jsonl")
    assert max(line["rollout_gap"] for line in lines) < CLOSE
    assert facts["rollouts"] == "vllm"
    assert facts["weights_sha256"] != base.facts["weights_sha256"]


def test_sdpo_follows_each_step_and_a_killed_engine_is_a_lost_process(
    shared: Vllm, base: Start, tmp_path: Path
) -> None:
    """The last test: the engine is killed after the second step of four."""
    for name in ("work", "output"):
        (tmp_path / name).mkdir()
    prompts = write(tmp_path / "train.jsonl", manners.requests(1, 12, "usual"))
    config = settings(steps=4, save_every=1, updates=2, rollouts=ROLLOUTS)
    asked = training.Asked(RuleJudge(config), {"charter_sha256": CHARTER.sha256})

    def kill(step: int, steps: int, metrics: Any) -> None:
        if step == 4:
            os.kill(shared.pid, signal.SIGKILL)

    with pytest.raises(EngineLost, match="the rollout engine ended with code -9"):
        training.train(
            base, prompts, None, config, asked, 3, backend="cpu", work=tmp_path / "work",
            output=tmp_path / "output", report=kill,
        )  # fmt: skip
    kept = sorted((tmp_path / "work" / "samples").iterdir())
    assert [path.name for path in kept] == ["0.json", "1.json"]
    for path in kept:
        found = json.loads(path.read_text())
        assert found["figures"]["rollout_gap"] < CLOSE
        taught = [each for drawn in found["drawn"] for each in drawn if each["outcome"] == "taught"]
        assert all(len(each["old"]) == len(each["response"]) for each in taught)
    assert not (tmp_path / "work" / "weights.safetensors").exists()
