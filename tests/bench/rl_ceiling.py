"""What no order of a run's work could exceed, by the simulator, from times measured alone.

The trainer's step and sync are the run's own, the rollout engine's speed was measured with nothing
beside it, lengths are drawn as the run draws them.
"""

import random
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import CountsConfig
from posttrain.simulation.outcome import Outcome, simulate
from posttrain.simulation.rules import VerlRule
from posttrain.simulation.scoring import RewardConfig
from posttrain.simulation.settings import RolloutConfig, Settings, SyncConfig, TrainerConfig
from tests.bench.rl_run import tail

DRAWS = 4000


def simulated(found: Mapping[str, Any], decode: Mapping[str, float]) -> Outcome:
    """The run `found` as the simulator sees it; `decode` is what tests.bench.rl_decode wrote."""
    spec, steps = found["spec"], found["steps"][1:]
    rule = VerlRule(rule="verl-drop", staleness=spec["staleness"])
    working = [step["seconds"] - step["seconds_waiting"] - step["seconds_sync"] for step in steps]
    settings = Settings(
        steps=len(steps), group_size=spec["group"], prompts_per_step=spec["prompts_per_step"],
        length_tokens=_lengths(spec, steps),
        rollout=RolloutConfig(
            accelerators=1, slots_per_replica=spec["group"] * spec["prompts_per_step"],
            decode=DecodeConfig(seconds_by_live={int(live): s for live, s in decode.items()}),
        ),
        trainer=TrainerConfig(
            accelerators=1, step_seconds=CountsConfig(counts=dict(Counter(working)))
        ),
        sync=SyncConfig(seconds=fmean(step["seconds_sync"] for step in steps)),
        reward=RewardConfig(latency_seconds=spec["latency"], replicas=spec["places"]),
        equal_rewards=_equal(steps, spec["prompts_per_step"]),
        rules=(rule,),
    )  # fmt: skip
    return simulate(settings, rule)


def _lengths(spec: Mapping[str, Any], steps: list[Mapping[str, float]]) -> CountsConfig:
    """Of whole responses: the answers' mean, and tails as the run draws them."""
    draw = random.Random(0)
    middle, spread, most = spec["tail"]
    tails = [tail(draw, middle, spread, int(most)) for _ in range(DRAWS)]
    samples = len(steps) * spec["group"] * spec["prompts_per_step"]
    answer = sum(step["tokens"] for step in steps) / samples - fmean(tails)
    return CountsConfig(counts=dict(Counter(max(1, round(answer + each)) for each in tails)))


def _equal(steps: list[Mapping[str, float]], prompts: int) -> float:
    equal = sum(step["dropped_equal"] for step in steps)
    return equal / (equal + len(steps) * prompts + sum(step["dropped_stale"] for step in steps))
