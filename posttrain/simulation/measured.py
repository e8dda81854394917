"""Settings from an RL stage that ran: its record, its metrics, and the lengths of its responses.

The trainer's times are read off its metrics. How fast rollouts decode is in no metric, so it is
the one speed at which the simulated trainer takes as long for a step as the real one did; where
that hardly waited, decoding was at least that fast. How much slower a token is when all slots are
live cannot be seen in one run: whoever measured it says so by `growth`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from pydantic import ValidationError

from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import CountsConfig
from posttrain.simulation.outcome import simulate
from posttrain.simulation.rules import AnyRule, CountRule, VerlRule, WindowedRule
from posttrain.simulation.settings import RolloutConfig, Settings, SyncConfig, TrainerConfig

POLL_SECONDS = 0.05
"""As in posttrain.rl.buffer."""

SEQUENCES = 256
"""Most that the RL stage lets a replica decode at a time."""

SPEEDS = (1e-7, 10.0)
"""Seconds a token between which the speed of decoding is searched, by `HALVINGS`."""

HALVINGS = 16

Row = Mapping[str, float]


def settings_of(folder: Path, lengths: Path | None = None, growth: float = 1.0) -> Settings:
    """What the stage in `folder` ran with; ValueError names a file that is missing or wrong.

    `lengths` is a JSON file that maps a length in tokens to a count; without it the folder's
    `lengths.json`. `growth` is as of `derive`.
    """
    counts = lengths or folder / "lengths.json"
    try:
        config = json.loads(_text(folder / "record.json"))["identity"]["config"]
        rows = [json.loads(line) for line in _text(folder / "metrics.jsonl").splitlines()]
        return derive(rows, config, CountsConfig(counts=json.loads(_text(counts))), growth)
    except (KeyError, TypeError, json.JSONDecodeError, ValidationError) as fault:
        told = " ".join(str(fault).split())
        raise ValueError(f"{folder} is not what an RL stage leaves, or {counts}: {told}") from fault


def derive(
    rows: Sequence[Row], config: Mapping[str, Any], lengths: CountsConfig, growth: float = 1.0
) -> Settings:
    """Settings of the run that left `rows` (metrics of each step) and had the RL `config`.

    A token takes `growth` times as long with all slots live as with one.
    """
    steady = rows[1:] or rows  # The first step compiles, and waits for the first batch.
    base = _read_off(steady, config, lengths)
    seconds = mean(row["seconds"] for row in steady)
    rule = _rule(config)

    def decoding(alone: float) -> Settings:
        rollout = base.rollout.model_copy(
            update={"decode": _decode(alone, growth, base.rollout.slots_per_replica)}
        )
        return base.model_copy(update={"rollout": rollout})

    return decoding(_slowest(lambda alone: simulate(decoding(alone), rule).step_seconds, seconds))


def _rule(config: Mapping[str, Any]) -> AnyRule:
    """The rule the run took its batches by; before there was a choice, all dropped."""
    staleness, name = int(config["staleness"]), config.get("rule", "drop")
    if name == "windowed":
        window = int(config["window"])
        return WindowedRule(rule="windowed", staleness=staleness, window_prompts=window)
    return VerlRule(rule="verl-wait" if name == "wait" else "verl-drop", staleness=staleness)


def _decode(alone: float, growth: float, slots: int) -> DecodeConfig:
    """`alone` seconds for one live sequence, `growth` times that for `slots` of them."""
    if not 1 <= growth < max(slots, 2):
        raise ValueError(f"growth {growth:g}: {slots} slots make a token 1 to {slots} times slower")
    more = alone * (growth - 1) / max(slots - 1, 1)
    return DecodeConfig(seconds=alone - more, seconds_per_sequence=more)


def _read_off(rows: Sequence[Row], config: Mapping[str, Any], lengths: CountsConfig) -> Settings:
    """All but the speed of decoding."""
    prompts, group = int(config["prompts_per_step"]), int(config["group"])
    working = [row["seconds"] - row["seconds_waiting"] - row["seconds_sync"] for row in rows]
    equal = sum(row["dropped_equal"] for row in rows)
    kept = len(rows) * prompts + sum(row["dropped_stale"] for row in rows)
    trainer, rollout, per_replica = _placement(config)
    return Settings(
        steps=len(rows), group_size=group, prompts_per_step=prompts, length_tokens=lengths,
        rollout=RolloutConfig(
            accelerators=rollout, per_replica=per_replica,
            slots_per_replica=min(prompts * group, SEQUENCES), decode=DecodeConfig(seconds=1.0),
        ),
        trainer=TrainerConfig(
            accelerators=trainer, step_seconds=CountsConfig(counts=dict.fromkeys(working, 1.0))
        ),
        sync=SyncConfig(seconds=mean(row["seconds_sync"] for row in rows)),
        equal_rewards=equal / (equal + kept), poll_seconds=POLL_SECONDS,
        rules=_all_rules(int(config["staleness"]), prompts),
    )  # fmt: skip


def _placement(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Accelerators of trainer and rollouts, and of one replica; one each where nothing is said."""
    placed = config.get("placement") or {}
    trainer, rollout = placed.get("trainer", {}), placed.get("rollout", {})
    counts = [side.get("nodes", 1) * side.get("per_node", 1) for side in (trainer, rollout)]
    return counts[0], counts[1], rollout.get("tensor_parallel", 1)


def _all_rules(staleness: int, prompts: int) -> tuple[AnyRule, ...]:
    return (
        CountRule(rule="count", staleness=staleness),
        WindowedRule(rule="windowed", staleness=staleness, window_prompts=prompts),
        VerlRule(rule="verl-drop", staleness=staleness),
        VerlRule(rule="verl-wait", staleness=staleness),
    )


def _slowest(step_seconds: Callable[[float], float], wanted: float) -> float:
    """The slowest decoding, in seconds a token, with which a step takes no longer than `wanted`."""
    fast, slow = SPEEDS
    for _ in range(HALVINGS):
        middle = sqrt(fast * slow)
        if step_seconds(middle) <= wanted:
            fast = middle
        else:
            slow = middle
    return fast


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror})") from fault
