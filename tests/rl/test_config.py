import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.backends import profile
from posttrain.rl.config import Place, RlConfig, overrides, science
from posttrain.stages.rl import Config

SOURCES = {"sums": {"data": "prompts", "verifier": "answer", "thinking": "50%"}}


def _config(**changes: Any) -> RlConfig:
    return RlConfig.model_validate({"sources": SOURCES, "steps": 25} | changes)


def _place(resume: Path | None = None) -> Place:
    return Place(Path("start/model"), Path("work"), resume, seed=7)


def test_the_defaults_are_the_seed_runs_algorithm() -> None:
    asked = science(_config())
    assert asked["algorithm.adv_estimator"] == "rloo_vectorized"
    assert asked["algorithm.norm_adv_by_std_in_grpo"] is False
    assert asked["algorithm.rollout_correction.bypass_mode"] is True
    actor = "actor_rollout_ref.actor"
    assert asked[f"{actor}.policy_loss.loss_mode"] == "gmpo"
    assert [asked[f"{actor}.clip_ratio_{end}"] for end in ("low", "high")] == [0.2, 0.28]
    assert [asked["algorithm.use_kl_in_reward"], asked[f"{actor}.use_kl_loss"]] == [False, False]
    assert [asked[f"{actor}.optim.lr"], asked[f"{actor}.optim.weight_decay"]] == [1e-6, 0.01]
    assert [asked[f"data.max_{part}_length"] for part in ("prompt", "response")] == [2048, 8192]


@pytest.mark.parametrize(("staleness", "threshold"), [(0, 1), (1, 2), (3, 4)])
def test_staleness_bounds_what_verl_keeps_and_prefetches(staleness: int, threshold: int) -> None:
    asked = science(_config(staleness=staleness))
    assert asked["trainer.v1.separate_async.num_warmup_batches"] == staleness
    assert asked["trainer.v1.sampler.max_off_policy_threshold"] == threshold
    assert asked["trainer.v1.sampler.max_off_policy_strategy"] == "drop"


@pytest.mark.parametrize(
    ("asked", "oldest", "threshold", "strategy"),
    [
        ({"staleness": 3}, 3, 4, "drop"),
        ({"staleness": 0, "rule": "wait"}, 0, 1, "wait"),
        ({"staleness": 3, "rule": "wait"}, 5, 4, "wait"),
        ({"staleness": 0, "rule": "windowed", "window": 64}, 0, None, "drop"),
        ({"staleness": 1, "rule": "windowed", "window": 1}, 1, None, "drop"),
        ({"staleness": 1, "rule": "windowed", "window": 256}, 2, None, "drop"),
        ({"staleness": 1, "rule": "windowed", "window": 257}, 2, None, "drop"),
        ({"staleness": 1, "rule": "windowed", "window": 258}, 3, None, "drop"),
    ],
)
def test_each_rule_has_its_bound(
    asked: dict[str, Any], oldest: int, threshold: int | None, strategy: str
) -> None:
    """As in docs/simulation.md: S, max(S, 2S - 1) and S + ceil((W - 1) / P)."""
    config = _config(**asked)
    assert config.oldest() == oldest
    sampler = "trainer.v1.sampler.max_off_policy"
    told = [science(config)[f"{sampler}_{name}"] for name in ("threshold", "strategy")]
    assert told == [threshold, strategy]


@pytest.mark.parametrize("wrong", [{"window": 4}, {"rule": "windowed"}])
def test_a_window_goes_with_its_rule(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="goes with `rule: windowed`"):
        _config(**wrong)


@pytest.mark.parametrize("shares", [["50%", None], ["50%", "40%"], ["100%", "0%"]])
def test_shares_of_sources_are_all_or_none(shares: list[str | None]) -> None:
    source = SOURCES["sums"]
    sources = {f"s{i}": source | {"share": share} for i, share in enumerate(shares)}
    with pytest.raises(ValidationError):
        _config(sources=sources)


@given(st.integers(1, 300), st.integers(2, 16))
def test_a_batch_divides_into_micro_batches(prompts: int, group: int) -> None:
    asked = overrides(_config(prompts_per_step=prompts, group=group), _place(), profile("cpu"))
    micro = asked["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"]
    assert 0 < micro <= 128
    assert prompts * group % micro == 0
    assert asked["data.train_batch_size"] == prompts


def test_a_resumed_run_names_its_checkpoint() -> None:
    fresh = overrides(_config(), _place(), profile("cpu"))
    resumed = overrides(_config(), _place(Path("work/global_step_5")), profile("cpu"))
    assert fresh["trainer.resume_mode"] == "disable"
    assert resumed["trainer.resume_mode"] == "resume_path"
    assert resumed["trainer.resume_from_path"] == "work/global_step_5"


def test_recipe_overrides_come_last_but_not_over_the_science() -> None:
    key = "actor_rollout_ref.rollout.max_num_seqs"
    assert overrides(_config(overrides={key: 8}), _place(), profile("cpu"))[key] == 8
    with pytest.raises(ValidationError, match=r"actor_rollout_ref.rollout.n.*own keys decide"):
        _config(overrides={"actor_rollout_ref.rollout.n": 4})


@pytest.mark.parametrize(
    "wrong",
    [{"group": 1}, {"staleness": -1}, {"sources": {}}, {"temperature": 0}, {"stpes": 1}],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _config(**wrong)


def test_the_stage_asks_for_checkpoint_data_and_rewards() -> None:
    config = Config.model_validate({"from": "long", "sources": SOURCES, "steps": 1})
    assert config.inputs() == {"from": "long", "data.prompts": "prompts"}
    assert config.services() == ("rewards",)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_verl_accepts_every_override(backend: str) -> None:
    os.environ.update(profile("cpu").environment)
    from verl.utils.config import omega_conf_to_dataclass

    from posttrain.rl.session import compose

    config = compose(overrides(_config(), _place(), profile(backend)))
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert rollout.n == 8
    assert rollout.max_model_len == 2048 + 8192
    assert omega_conf_to_dataclass(config.actor_rollout_ref.actor.optim).betas == [0.9, 0.999]


def test_verl_refuses_an_unknown_override() -> None:
    from posttrain.rl.session import compose

    asked = overrides(_config(overrides={"trainer.no_such_key": 1}), _place(), profile("cpu"))
    with pytest.raises(ValueError, match=r"no setting trainer\.no_such_key"):
        compose(asked)


def test_placement_is_told_to_verl() -> None:
    placement = {
        "trainer": {"nodes": 16, "per_node": 4},
        "rollout": {"nodes": 8, "per_node": 4, "tensor_parallel": 2},
    }
    asked = overrides(_config(placement=placement, prompts_per_step=256), _place(), profile("gpu"))
    rollout = "actor_rollout_ref.rollout"
    told = [asked[f"trainer.{name}"] for name in ("nnodes", "n_gpus_per_node")]
    told += [asked[f"{rollout}.{name}"] for name in ("nnodes", "n_gpus_per_node")]
    assert [*told, asked[f"{rollout}.tensor_model_parallel_size"]] == [16, 4, 8, 4, 2]
    assert 256 * 8 // 64 % asked["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == 0


@pytest.mark.parametrize(
    ("placement", "told"),
    [
        ({"trainer": {"per_node": 3}}, "256 prompts of 8 responses do not divide among 3"),
        ({"rollout": {"per_node": 4, "tensor_parallel": 3}}, "4 accelerators do not divide"),
    ],
)
def test_a_placement_that_does_not_divide_is_refused(placement: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        _config(placement=placement)
