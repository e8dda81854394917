"""Megatron's parallelism by configuration: what is refused when planning, and verl's settings."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from verl.workers.config import FSDPEngineConfig, McoreEngineConfig

from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.stages import sft
from posttrain.store import Store
from posttrain.training.parallel import MegatronConfig
from tests.core.runs import write

SFT: dict[str, Any] = {
    "from": "base", "data": "talk", "steps": 4, "batch": 32, "optimizer": {"adamw": {"lr": 6e-5}},
    "ranks": 128, "context": {"length": 262_144, "rope": {"theta": 4e6}},
    "parallel": {"context": 16, "tensor": 4},
}  # fmt: skip


def config(**changes: Any) -> sft.Config:
    return sft.Config.model_validate(SFT | changes)


def test_the_settings_of_long_context_training_are_accepted() -> None:
    parallel = config().parallel
    assert parallel is not None
    assert (parallel.together, parallel.misfit(128, 262_144)) == (64, None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ranks": 100}, r"ranks 100 is no multiple of parallel \(context 16 x tensor 4 x .* = 64"),
        ({"context": {"length": 262_150}}, "context.length 262150 does not divide into 32 equal"),
        ({"sequence_parallel": 8}, "sequence_parallel is of verl's FSDP engine"),
        ({"optimizer": {"ademamix": {"lr": 1e-5}}}, "adamw alone"),
        ({"optimizer": {"adamw": {"lr": 1e-5}, "muon": {"lr": 1e-2}}}, "adamw alone"),
        ({"precision": {"compute": "fp32"}}, "computes in bf16"),
        ({"parallel": {"context": 0}}, "greater than 0"),
        ({"parallel": {"expert": 2}}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        config(**changes)


def test_rows_need_no_pieces_where_no_ranks_share_them() -> None:
    assert config(parallel={"tensor": 4}, context={"length": 1001}).parallel


@pytest.mark.parametrize(
    ("tensor", "shares_tokens"), [(1, False), (4, True)]
)  # verl turns it off where there is no tensor parallelism; ours says so itself.
def test_verl_takes_the_settings_as_they_are(tensor: int, shares_tokens: bool) -> None:
    asked = MegatronConfig(context=16, tensor=tensor, pipeline=2)
    settings = asked.settings()
    found = McoreEngineConfig(**settings)
    assert {name: getattr(found, name) for name in settings} == settings
    assert found.sequence_parallel is shares_tokens
    assert found.context_parallel_size * found.pipeline_model_parallel_size == 32


def test_no_engine_of_verl_has_both_ways_to_share_a_row() -> None:
    """What the refusal of both rests on."""
    megatron, fsdp = (
        {field.name for field in dataclasses.fields(each)}
        for each in (McoreEngineConfig, FSDPEngineConfig)
    )
    assert "ulysses_sequence_parallel_size" in fsdp - megatron
    assert "context_parallel_size" in megatron - fsdp


RECIPE = """\
recipe: long
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 64}
stages:
  tokenizer: {kind: tokenizer, data: [corpus], vocabulary: 600}
  base:
    kind: pretrain
    model:
      {architecture: apertus, hidden: 32, layers: 2, heads: 2, feed_forward: 64, vocabulary: 600}
    data: corpus
    steps: 4
    optimizer: {adamw: {lr: 1e-3}}
  sft:
    kind: sft
    from: base
    data: corpus
    steps: 4
    optimizer: {adamw: {lr: 1e-3}}
    ranks: 4
    parallel: {context: 4}
"""


def test_the_cpu_backend_refuses_it_when_planning(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"r.yaml:\d+: sft: parallel is Megatron's, which needs"):
        resolve(load(write(tmp_path, RECIPE)), Store(tmp_path / "store"))


def test_on_gpus_it_is_planned_and_refused_before_anything_runs(tmp_path: Path) -> None:
    """Nothing starts Megatron's ranks yet; base would have been paid for first."""
    on_gpus = RECIPE.replace("backend: cpu", "backend: gpu")
    plan = resolve(load(write(tmp_path, on_gpus)), Store(tmp_path / "store"))
    assert plan.nodes["sft"].state == "blocked"
    with pytest.raises(ValueError, match=r"r.yaml:\d+: sft: parallel is checked and planned, but"):
        plan.check()
