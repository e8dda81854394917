"""What was measured of a stage, as a recipe states it; no figure is ever supplied for it.

    measured:
      rl:
        source: run of 2026-05-02 on 32 nodes
        length_tokens: {median: 900, p99: 7000, most: 8192}
        ...

None of it is part of any key: it says how long, not what.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from posttrain.quantities import Share
from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import Distribution, Strict
from posttrain.simulation.scoring import RewardConfig

if TYPE_CHECKING:  # Every recipe is read with this module; few are simulated.
    from posttrain.simulation.rules import AnyRule
    from posttrain.simulation.settings import Settings


class Measured(Strict):
    """Figures of one stage and the `source` they are from, which is printed beside what follows.

    An RL stage needs `length_tokens`, `decode`, `slots_per_replica`, `trainer_step_seconds`,
    `sync_seconds` and `reward`, each as in a settings file of `posttrain simulate`;
    `trainer_step_seconds` is for a whole step on the trainer's accelerators. Any other stage needs
    `step_seconds` on its `accelerators`.
    """

    source: str = Field(min_length=1)
    length_tokens: Distribution | None = None
    decode: DecodeConfig | None = None
    slots_per_replica: PositiveInt | None = None
    trainer_step_seconds: Distribution | None = None
    sync_seconds: NonNegativeFloat | None = None
    reward: RewardConfig | None = None
    equal_rewards: Share = Field(default=0.0, lt=1)
    step_seconds: PositiveFloat | None = None
    accelerators: PositiveInt | None = None


RL = (
    "length_tokens", "decode", "slots_per_replica", "trainer_step_seconds", "sync_seconds", "reward"
)  # fmt: skip
OTHER = ("step_seconds", "accelerators")


class Expectation(NamedTuple):
    """What is to be expected of a stage, or the figures `missing` for it.

    `figures` has `hours` (wall clock), `accelerator_hours` and, of an RL stage, `step_seconds`,
    `samples_per_second`, `ages` (p50, p99 and most, in weight versions), `reward_replicas` and
    `best_split` (accelerators of trainer and rollouts).
    """

    missing: tuple[str, ...]
    source: str
    figures: Mapping[str, Any]

    def told(self) -> Iterator[str]:
        """Lines on it."""
        if self.missing:
            yield f"time unknown: `measured` does not say {', '.join(self.missing)}"
            return
        figures = self.figures
        hours = f"{figures['hours']:.1f} h, {figures['accelerator_hours']:,.0f} accelerator-hours"
        yield f"{hours} (from {self.source})"
        if "best_split" in figures:
            ages, (trainer, rollout) = figures["ages"], figures["best_split"]
            yield (
                f"{figures['step_seconds']:.4g} s/step, {figures['samples_per_second']:.4g} "
                f"samples/s, age p50/p99/max {ages['p50']}/{ages['p99']}/{ages['most']}, "
                f"{figures['reward_replicas']} reward replicas needed, best split "
                f"trainer:rollout {trainer}:{rollout} (simulated)"
            )


def expected(kind: str, config: Mapping[str, Any], measured: Measured | None) -> Expectation:
    """Of a stage of `kind` with `config` (plain values, as in its key)."""
    wanted = RL if kind == "rl" else OTHER
    missing = tuple(name for name in wanted if getattr(measured, name, None) is None)
    if measured is None or missing:
        return Expectation(missing, measured.source if measured else "", {})
    figures = _simulated(config, measured) if kind == "rl" else _counted(config, measured)
    return Expectation((), measured.source, figures)


def _counted(config: Mapping[str, Any], measured: Measured) -> dict[str, Any]:
    assert measured.step_seconds is not None
    assert measured.accelerators is not None
    hours = config["steps"] * measured.step_seconds / 3600
    return {"hours": hours, "accelerator_hours": hours * measured.accelerators}


def _simulated(config: Mapping[str, Any], measured: Measured) -> dict[str, Any]:
    from posttrain.simulation.outcome import simulate
    from posttrain.simulation.sizing import best_split, replicas_needed, shortened

    settings, (rule,) = (made := settings_of(config, measured)), made.rules
    found = simulate(shortened(settings), rule)
    hours = found.step_seconds * settings.steps / 3600
    return {
        "hours": hours, "accelerator_hours": hours * settings.accelerators,
        "step_seconds": found.step_seconds, "samples_per_second": found.samples_per_second,
        "ages": {"p50": found.ages.p50, "p99": found.ages.p99, "most": found.ages.most},
        "reward_replicas": replicas_needed(settings, lambda each: simulate(each, rule)),
        "best_split": best_split(settings, rule),
    }  # fmt: skip


def settings_of(config: Mapping[str, Any], measured: Measured) -> "Settings":
    """Settings of an RL `config` with its measured figures, all of which are there."""
    from posttrain.simulation.settings import RolloutConfig, Settings, SyncConfig, TrainerConfig

    assert measured.length_tokens is not None
    assert measured.decode is not None
    assert measured.slots_per_replica is not None
    assert measured.trainer_step_seconds is not None
    assert measured.sync_seconds is not None
    assert measured.reward is not None
    trainer, rollout = (config["placement"][side] for side in ("trainer", "rollout"))
    return Settings(
        steps=config["steps"], group_size=config["group"],
        prompts_per_step=config["prompts_per_step"], length_tokens=measured.length_tokens,
        rollout=RolloutConfig(
            accelerators=rollout["nodes"] * rollout["per_node"],
            per_replica=rollout["tensor_parallel"],
            slots_per_replica=measured.slots_per_replica, decode=measured.decode,
        ),
        trainer=TrainerConfig(
            accelerators=trainer["nodes"] * trainer["per_node"],
            step_seconds=measured.trainer_step_seconds,
        ),
        sync=SyncConfig(seconds=measured.sync_seconds), reward=measured.reward,
        equal_rewards=measured.equal_rewards, rules=(_rule(config),),
    )  # fmt: skip


def _rule(config: Mapping[str, Any]) -> "AnyRule":
    """The rule by which the stage bounds staleness."""
    from posttrain.simulation.rules import CountRule, VerlRule, WindowedRule

    staleness = int(config["staleness"])
    if config["rule"] == "windowed":
        return WindowedRule(rule="windowed", staleness=staleness, window_prompts=config["window"])
    if staleness == 0:
        return CountRule(rule="count", staleness=0)
    return VerlRule(
        rule="verl-wait" if config["rule"] == "wait" else "verl-drop", staleness=staleness
    )
