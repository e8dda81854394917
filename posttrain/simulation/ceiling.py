"""The least time in which a run's useful work can be done, whatever the order it is done in.

Useful is what was trained on, and groups of equal rewards, which nobody knows beforehand; what a
rule throws away is its own loss. Each part gives a bound: rollouts cannot decode faster than at
their best load, nor while weights are synced; a trainer trains one batch after the other; the
reward service scores so many at a time. The largest bound holds.
"""

from posttrain.simulation.engine import Simulation
from posttrain.simulation.group import State

_USEFUL = (State.TRAINED, State.FILTERED)


def least_seconds(run: Simulation) -> float:
    """Where rollouts and trainer run side by side."""
    trainer = run.trainer.training_seconds
    return run.trainer.sync_seconds + max(trainer, _generation(run), _verification(run))


def least_seconds_in_turn(run: Simulation) -> float:
    """Where the same accelerators generate, then train."""
    work = max(_generation(run), _verification(run))
    return run.trainer.sync_seconds + run.trainer.training_seconds + work


def _generation(run: Simulation) -> float:
    tokens = sum(
        response.tokens
        for group in run.groups
        if group.state in _USEFUL
        for response in group.responses
    )
    return tokens / run.pool.peak


def _verification(run: Simulation) -> float:
    """Scoring goes on during a sync, which is taken off."""
    seconds = sum(
        response.latency
        for group in run.groups
        if group.state in _USEFUL
        for response in group.responses
    )
    return max(0.0, seconds / run.settings.reward.capacity - run.trainer.sync_seconds)
