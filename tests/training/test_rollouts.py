"""Samplers without vLLM: what they say of what they sampled, and what is done about a lost one."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from posttrain.training import checkpoint
from posttrain.training.completions import log_probs, token_log_probs
from posttrain.training.engine import Engine
from posttrain.training.process import single_process_group
from posttrain.training.rollouts import vllm
from posttrain.training.rollouts.checked import Checked
from posttrain.training.rollouts.config import RolloutsConfig
from posttrain.training.rollouts.source import Local, Response, document
from posttrain.training.rollouts.vllm import EngineLost
from posttrain.training.sft import Start
from tests.training.test_completions import ADAMW, CONSTANT, some_documents
from tests.waiting import eventually

PROMPTS = [[1, 30 + place, *range(40, 44 + place)] for place in range(5)]


class Telling:
    """Says of every token of one response what it is told to."""

    def __init__(self, *values: float) -> None:
        self._values = list(values)

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Nothing to follow."""

    def respond(
        self, prompts: Sequence[Sequence[int]], seed: int, *, with_log_probs: bool
    ) -> list[Response]:
        """One response to each prompt."""
        return [Response([7] * len(self._values), self._values) for _ in prompts]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_a_local_sampler_says_what_the_trainer_says(base: Start, temperature: float) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    rollouts = Local(model, [5], 6, temperature)
    found = rollouts.respond(PROMPTS, 3, with_log_probs=True)
    assert found == rollouts.respond(PROMPTS, 3, with_log_probs=True)
    bare = rollouts.respond(PROMPTS, 3, with_log_probs=False)
    assert bare == [Response(each.ids) for each in found]
    documents = [document(*each) for each in zip(PROMPTS, (r.ids for r in found), strict=True)]
    with single_process_group("cpu"):
        trained = checkpoint.load_model(base.path, base.facts)
        engine = Engine(trained, base.path / "model", ADAMW, CONSTANT, 1, "cpu")
        ours = token_log_probs(engine, documents, temperature=temperature)
    for response, values in zip(found, ours, strict=True):
        assert response.log_probs == pytest.approx(values, abs=1e-5)


def test_log_probabilities_of_tokens_add_up_to_those_of_documents(base: Start) -> None:
    documents = some_documents(6)
    with single_process_group("cpu"):
        model = checkpoint.load_model(base.path, base.facts)
        engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 1, "cpu")
        found = token_log_probs(engine, documents)
        assert [math.fsum(each) for each in found] == pytest.approx(log_probs(engine, documents))
        assert [len(each) for each in found] == [sum(each.mask) for each in documents]
        assert token_log_probs(engine, []) == []


def test_a_sampler_whose_policy_is_another_is_found_out() -> None:
    def trainer(documents: Sequence[Any]) -> list[list[float]]:
        return [[-1.0, -2.0] for _ in documents]

    checked = Checked(Telling(-1.01, -2.03), trainer, 0.02)
    assert len(checked.respond(PROMPTS, 1, with_log_probs=False)) == 5
    assert checked.gap == pytest.approx(0.02)
    checked.follow({})
    assert checked.gap == 0
    with pytest.raises(RuntimeError, match=r"are 0.025 nats per token off .* another policy"):
        Checked(Telling(-1.01, -2.04), trainer, 0.02).respond(PROMPTS, 1, with_log_probs=False)
    with pytest.raises(RuntimeError, match="are nan nats"):
        Checked(Telling(float("nan"), -2.0), trainer, 0.02).respond(
            PROMPTS, 1, with_log_probs=False
        )


def test_an_unknown_engine_and_its_foreign_settings_are_refused() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(RolloutsConfig)
    assert adapter.validate_python({"engine": "vllm"}).tensor_parallel == 1
    for wrong in ({"engine": "sglang"}, {"engine": "local", "memory": 0.5}, {"memory": 0.5}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


@pytest.fixture
def idle() -> Any:
    """A process that says nothing."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait(10)


def _asking(process: "subprocess.Popen[bytes]", root: Path, silence: float) -> tuple[Any, Any]:
    ours, theirs = Pipe()
    weights = root / "weights.safetensors"
    return vllm.Vllm(process, ours, weights, 4, 1.0, [5], silence), theirs


def test_a_silent_engine_is_a_lost_process(idle: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    rollouts, _held = _asking(idle, tmp_path, 0.2)
    with pytest.raises(EngineLost, match="said nothing for 0 s"):
        rollouts.follow({"a": torch.zeros(2)})
    assert not list(tmp_path.iterdir()), "the weights are gone with the question"


def test_an_engine_that_takes_nothing_is_a_lost_process(
    idle: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """More than a pipe holds."""
    rollouts, _held = _asking(idle, tmp_path, 0.3)
    with pytest.raises(EngineLost, match="took nothing for 0 s"):
        rollouts.respond([[7] * 4096 for _ in range(999)], 1)


def test_a_dead_engine_is_a_lost_process(idle: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    rollouts, theirs = _asking(idle, tmp_path, 30)
    idle.send_signal(signal.SIGKILL)
    with pytest.raises(EngineLost, match="ended with code -9"):
        rollouts.respond(PROMPTS, 1)
    theirs.close()
    with pytest.raises(EngineLost, match="ended with code -9"):
        rollouts.respond(PROMPTS, 1)


def test_the_engine_ends_with_a_trainer_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of the trainer while the engine comes up; what it starts is told by the kernel."""
    code = f"""
from pathlib import Path
from posttrain.training.rollouts import vllm
from posttrain.training.rollouts.config import VllmConfig
with vllm.started(
    VllmConfig(engine="vllm"), Path({str(tmp_path)!r}), prompt=4, response=4, temperature=1.0,
    stop_ids=[5], seed=1, backend="cpu", work=Path({str(tmp_path)!r}),
):
    pass
"""
    trainer = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    try:
        assert eventually(lambda: bool(_children(trainer.pid)), within=100)
        [engine] = _children(trainer.pid)
        time.sleep(0.2)
    finally:
        trainer.kill()
        trainer.wait(10)
    assert eventually(lambda: not _alive(engine), within=30)


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()] if path.exists() else []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
