"""Published runs as settings: what is published of them, and what was filled in.

verl's fully asynchronous trainer, Qwen2.5-Math-7B on H20, 512 prompts of 16 responses of at most
28K tokens, require_batches 4, trigger_parameter_sync_step 4, staleness_threshold 0.5, half of the
accelerators each (docs/advance/fully_async.md). Published are the seconds of a step and of its
parts. Filled in: the shape of the lengths, and of decoding (7B weights and their cache at 4 TB/s:
5 ms a token and 0.12 ms for each sequence), which is then scaled so that the synchronous run takes
the time it took.

AReaL v0.3, 1.5B on 16 nodes of 8: 1000 steps in 41.0 h and in 14.8 h (blog/AReaL_v0_3.md), 512
prompts of 16 responses of at most 27K tokens, three quarters of the accelerators generating.
Published are the totals alone; the rest is filled in likewise.
"""

from typing import Any, NamedTuple

from posttrain.simulation.outcome import simulate, simulate_synchronous
from posttrain.simulation.rules import CountRule
from posttrain.simulation.settings import Settings


class Verl(NamedTuple):
    """Mean seconds of 400 steps: a synchronous step, of it generation and training; an update of
    the asynchronous run, and its step. `between` are the ratios of total times published;
    `slowness` makes the simulated synchronous step last as long as it did."""

    accelerators: int
    step: float
    generation: float
    training: float
    update: float
    asynchronous: float
    between: tuple[float, float]
    slowness: float


VERL = (
    Verl(32, 790.10, 357.41, 107.71 + 269.80, 313.81, 294.77, (1.70, 2.66), 1.67),
    Verl(64, 365.28, 150.72, 70.26 + 133.41, 156.98, 189.26, (1.83, 2.09), 0.843),
    Verl(128, 356.30, 177.85, 53.92 + 113.81, 113.16, 150.63, (2.35, 2.67), 1.084),
)

STREAMED = 356.30 / 231.34
"""Of 128 accelerators with staleness_threshold 0."""


def verl(run: Verl, steps: int) -> Settings:
    """A run of it."""
    half = run.accelerators // 2
    return Settings.model_validate({
        "steps": steps,
        "group_size": 16,
        "prompts_per_step": 512,
        "updates_per_step": 4,
        "length_tokens": {"median": 1500, "p99": 14000, "most": 28672},
        "rollout": {
            "accelerators": half,
            "slots_per_replica": 256,
            "decode": {
                "seconds": 0.005 * run.slowness, "seconds_per_sequence": 0.00012 * run.slowness,
            },
        },
        "trainer": {"accelerators": half, "step_seconds": run.update},
        "sync": {"seconds": 4},
        "synchronous": {
            "step_seconds": run.training,
            "sync_seconds": run.step - run.generation - run.training,
        },
        "rules": [{"rule": "count", "staleness": 0.5}],
    })  # fmt: skip


def verl_ratios(run: Verl, steps: int) -> tuple[float, float]:
    """Seconds of the synchronous step as published, over those simulated: staleness 0.5, and 0."""
    settings = verl(run, steps)
    rules = (settings.rules[0], CountRule(rule="count", staleness=0))
    half, none = (run.step / simulate(settings, rule).step_seconds for rule in rules)
    return half, none


AREAL = 41.0 / 14.8
AREAL_STEP = 41.0 * 3600 / 1000


def areal(step_seconds: float, steps: int, **changes: Any) -> Settings:
    """A run of it; a step of training takes `step_seconds` on all accelerators."""
    return Settings.model_validate({
        "steps": steps,
        "group_size": 16,
        "prompts_per_step": 512,
        "length_tokens": {"median": 4000, "p99": 25000, "most": 27648},
        "rollout": {
            "accelerators": 96,
            "slots_per_replica": 256,
            "decode": {"seconds": 0.0043, "seconds_per_sequence": 0.00004},
        },
        "trainer": {"accelerators": 32, "step_seconds": 4 * step_seconds},
        "sync": {"seconds": 3},
        "rules": [{"rule": "count", "staleness": 4}],
        **changes,
    })  # fmt: skip


def areal_ratio(steps: int) -> float:
    """Seconds of the synchronous step as published, over those of the asynchronous simulated."""
    generation = simulate_synchronous(areal(0, 1), streamed=True).step_seconds
    settings = areal(AREAL_STEP - generation, steps)
    return AREAL_STEP / simulate(settings, settings.rules[0]).step_seconds
