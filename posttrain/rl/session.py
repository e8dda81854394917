"""One RL run inside the Ray session at hand: started, watched, and gone afterwards.

A runner actor holds verl's trainer and owns every other actor of the run; this side waits for it
in short steps, passes its reports on and kills it when it shows no sign of life. Always holds:
whatever ends the run, the runner dies, and with it all that it started.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from posttrain.backends import Profile
from posttrain.rl.config import LimitsConfig, Place, RlConfig, overrides

Metrics = Mapping[str, float]


class RunLostError(RuntimeError):
    """A process of the run died or fell silent: trying again from the checkpoint may help."""


@dataclass(frozen=True)
class Pulse:
    """What the runner has to tell: reports since the last call, and seconds without any event."""

    reports: list[tuple[int, dict[str, float]]]
    idle: float


class Runner:
    """Ray actor (two threads): one runs verl's trainer, the other answers `pulse`."""

    def __init__(self) -> None:
        self._reports: list[tuple[int, dict[str, float]]] = []
        self._event = time.monotonic()

    def run(self, settings: Mapping[str, Any], limits: LimitsConfig) -> None:
        """Train to the last step; raises what verl raises."""
        import transfer_queue as tq

        config = compose(settings)
        tq.init(config.transfer_queue)
        try:
            self._train(config, limits)
        finally:
            tq.close()

    def _train(self, config: Any, limits: LimitsConfig) -> None:
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        from posttrain.rl.trainer import CheckedTrainer

        trainer = CheckedTrainer(config, limits, self._report, self._alive)
        trainer.init()
        self._alive()
        agents = AgentLoopManagerTQ.create(
            config=config, llm_client=trainer.get_llm_client(), teacher_client=None,
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )  # fmt: skip
        trainer.fit(agents)
        assert trainer.global_steps >= trainer.total_training_steps, "verl ended the run early"

    def pulse(self) -> Pulse:
        """Hand over the reports so far."""
        reports, self._reports = self._reports, []
        return Pulse(reports, time.monotonic() - self._event)

    def _report(self, step: int, metrics: Metrics) -> None:
        self._alive()
        self._reports.append((step, dict(metrics)))

    def _alive(self) -> None:
        self._event = time.monotonic()


def compose(settings: Mapping[str, Any]) -> Any:
    """verl's PPO config with `settings` (dotted key -> value) in place, resolved.

    ValueError when a setting is not in verl's schema and does not extend an open part of it.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra_compose("ppo_trainer", overrides=["model_engine=dp"])
    for key, value in settings.items():
        OmegaConf.update(config, key, value, force_add=True)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    return config


@contextmanager
def _runner(executable: str | None) -> Iterator[Any]:
    environment = {"py_executable": executable} if executable else {}
    actor = (
        ray.remote(Runner)
        .options(num_cpus=0, max_concurrency=2, runtime_env=environment or None)
        .remote()
    )
    try:
        yield actor
    finally:
        ray.kill(actor)


def train(
    config: RlConfig,
    place: Place,
    profile: Profile,
    report: Callable[[int, Metrics], None],
    executable: str | None = None,
) -> None:
    """Run to the last step, from `place.resume` if given; checkpoints appear as they are made.

    `executable` is what Ray starts worker processes with. RunLostError when a process died or
    nothing happened for `limits.silence` seconds; RuntimeError with the reason when a limit is
    exceeded.
    """
    settings = overrides(config, place, profile)
    with _runner(executable) as runner:
        done = runner.run.remote(settings, config.limits)
        while not ray.wait([done], timeout=1.0)[0]:
            _listen(runner, config.limits, report)
        ray.get(done)
        _listen(runner, config.limits, report)


def _listen(runner: Any, limits: LimitsConfig, report: Callable[[int, Metrics], None]) -> None:
    pulse: Pulse = ray.get(runner.pulse.remote(), timeout=limits.silence)
    for step, metrics in pulse.reports:
        report(step, metrics)
    if pulse.idle > limits.silence:
        raise RunLostError(f"nothing happened for {pulse.idle:.0f} s (limits.silence)")
