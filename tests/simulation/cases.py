"""Small settings for the simulator: one by hand, and any."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from posttrain.simulation.rules import AnyRule, Rule, SynchronousRule
from posttrain.simulation.settings import Settings

PLAIN: Mapping[str, Any] = {
    "steps": 4,
    "group_size": 1,
    "prompts_per_step": 2,
    "length_tokens": 10,
    "rollout": {"accelerators": 1, "slots_per_replica": 8, "decode": {"seconds": 0.1}},
    "trainer": {"accelerators": 1, "step_seconds": 3},
    "sync": {"seconds": 0.5},
    "rules": [{"rule": "count", "staleness": 1}],
}
"""A batch is generated in 1 s, trained on in 3 s, and synced in 0.5 s."""


def made(**changes: Any) -> Settings:
    """`PLAIN`, changed."""
    return Settings.model_validate({**PLAIN, **changes})


def rule_of(**rule: Any) -> AnyRule:
    """A rule as a settings file gives it."""
    return made(rules=[rule]).rules[0]


def seconds(most: float) -> st.SearchStrategy[Any]:
    """A time: a number, or a distribution with a tail."""
    numbers = st.floats(0.0, most, width=16)
    tails = st.builds(
        lambda median, ratio: {"median": median, "p99": median * ratio},
        st.floats(0.0625, most, width=16), st.floats(1, 20, width=16),
    )  # fmt: skip
    return numbers | tails


lengths = st.one_of(
    st.integers(1, 40),
    st.just({"counts": {1: 8, 3: 4, 200: 1}}),
    st.builds(
        lambda median, ratio: {"median": median, "p99": median * ratio, "most": 400},
        st.integers(2, 30), st.integers(1, 20),
    ),
)  # fmt: skip

decodes = st.one_of(
    st.builds(
        lambda each, more: {"seconds": each, "seconds_per_sequence": more},
        st.sampled_from([0.01, 0.1]), st.sampled_from([0.0, 0.02]),
    ),
    st.just({"seconds_by_live": {1: 0.02, 4: 0.03, 6: 0.2}}),
)  # fmt: skip

rewards = st.builds(
    lambda latency, replicas, at_once, queue: {
        "latency_seconds": latency, "replicas": replicas, "at_once": at_once, "queue": queue,
    },
    seconds(4.0), st.none() | st.integers(1, 3), st.integers(1, 2), st.none() | st.integers(0, 3),
)  # fmt: skip


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    """Any settings, of a few steps."""
    parts = draw(st.integers(1, 3))
    per_replica = draw(st.integers(1, 2))
    return made(
        seed=draw(st.integers(0, 99)),
        steps=draw(st.integers(1, 12)),
        group_size=draw(st.integers(1, 3)),
        prompts_per_step=parts * draw(st.integers(1, 3)),
        updates_per_step=parts,
        length_tokens=draw(lengths),
        rollout={
            "accelerators": per_replica * draw(st.integers(1, 3)),
            "per_replica": per_replica,
            "slots_per_replica": draw(st.integers(1, 9)),
            "decode": draw(decodes),
        },
        trainer={"accelerators": draw(st.integers(1, 3)), "step_seconds": draw(seconds(20.0))},
        sync={
            "seconds": draw(st.sampled_from([0.0, 0.5])),
            "in_flight": draw(st.sampled_from(["resume", "finish"])),
        },
        reward=draw(rewards),
        equal_rewards=draw(st.sampled_from([0.0, 0.3, 0.6])),
        poll_seconds=draw(st.sampled_from([0.0, 0.3])),
    )


rules: st.SearchStrategy[Rule] = st.one_of(
    st.builds(
        lambda staleness: rule_of(rule="count", staleness=staleness),
        st.sampled_from([0, 0.3, 1, 2.5]),
    ),
    st.builds(
        lambda staleness, window: rule_of(
            rule="windowed", staleness=staleness, window_prompts=window
        ),
        st.integers(0, 3), st.integers(1, 12),
    ),
    st.builds(
        lambda kind, staleness: rule_of(rule=kind, staleness=staleness),
        st.sampled_from(["verl-drop", "verl-wait"]), st.integers(0, 4),
    ),
    st.builds(lambda streamed: SynchronousRule(streamed=streamed), st.booleans()),
)  # fmt: skip
