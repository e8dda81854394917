"""One RL run inside the Ray session at hand: started, watched, and gone afterwards.

A runner actor holds verl's trainer and owns every other actor of the run; this side waits for it
in short steps, passes its reports on and kills it when it shows no sign of life. Always holds:
whatever ends the run, the runner dies, and with it all that it started.
"""

import errno
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import ray.util
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import PlacementGroup

from posttrain.backends import VERL_VERSION, Profile
from posttrain.rl.checkpoints import step_of
from posttrain.rl.config import LimitsConfig, Place, RlConfig, overrides
from posttrain.rl.ledger import Ledger
from posttrain.rl.live import Live
from posttrain.rl.tally import RUNNER, Tally
from posttrain.rl.watch import Results, Watch
from posttrain.stages import ProcessLost

Metrics = Mapping[str, float]

_OPEN = (
    "actor_rollout_ref.model.override_config.",
    "actor_rollout_ref.rollout.engine_kwargs.",
    "actor_rollout_ref.rollout.enable_sleep_mode",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
)
"""Settings that verl reads but does not list in its config files."""

_PACE = 0.5
"""Seconds between looks at the runner."""

_GROUP = "verl_group_"
_ACTORS = (
    RUNNER, "WorkerDict_", "rollout_standalone_", "vllm_server_", "agent_loop_", "TransferQueue",
)  # fmt: skip
"""How we, verl and TransferQueue name what is started."""


class RunLostError(ProcessLost):
    """A process of the run died, fell silent or lost its port: trying again may help."""


@dataclass(frozen=True)
class Pulse:
    """What the runner has to tell: reports since the last call, and seconds without any event."""

    reports: list[tuple[int, dict[str, float]]]
    idle: float


class Runner:
    """Ray actor (two threads): one runs verl's trainer, the other takes in and gives out signs."""

    def __init__(self, config: RlConfig, place: Place) -> None:
        self._config, self._place = config, place
        self._tally = Tally(config.limits.unverifiable)
        self._live = Live(place.work)
        self._ledger: Ledger
        self._reports: list[tuple[int, dict[str, float]]] = []
        self._event = time.monotonic()

    def run(self, settings: Mapping[str, Any]) -> None:
        """Train to the last step; raises what verl raises."""
        import transfer_queue as tq

        self._ledger = opened(self._config, self._place)
        self._live.begin()
        config = compose(settings)
        self._place.resolved.write_text(written(config, self._place))
        tq.init(config.transfer_queue)
        try:
            self._train(config)
        finally:
            self._ledger.close()
            self._live.end()
            tq.close()

    def _train(self, config: Any) -> None:
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        from posttrain.rl.trainer import CheckedTrainer

        trainer = CheckedTrainer(
            config, self._config, self._place.seed, self._ledger, self._tally, self._report,
            self._alive, self._live,
        )  # fmt: skip
        trainer.watch = self._watch(trainer)
        trainer.init()
        self._alive()
        agents = AgentLoopManagerTQ.create(
            config=config, llm_client=trainer.get_llm_client(), teacher_client=None,
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )  # fmt: skip
        try:
            trainer.fit(agents)
        except RuntimeError:
            trainer.require_servers()  # the reason of faults may be that a server died
            raise
        assert trainer.global_steps >= trainer.total_training_steps, "verl ended the run early"

    def _watch(self, trainer: Any) -> Watch | None:
        from posttrain.rl.held_out import trying

        if self._config.watch is None:
            return None
        rows = [
            json.loads(line) for line in self._place.held_out.read_text("utf-8").split("\n")[:-1]
        ]
        [loop] = json.loads(self._place.agents.read_text())
        results = Results(self._place.watched, step_of(self._place.resume))
        attempt = trying(trainer, loop["rewards"])
        return Watch(rows, attempt, results, self._alive, self._config.watch.every)

    def pulse(self) -> Pulse:
        """Hand over the reports so far."""
        reports, self._reports = self._reports, []
        return Pulse(reports, time.monotonic() - self._event)

    def generating(self, prompt: int) -> None:
        """A response to `prompt` begins."""
        if self._ledger.account.prompts[prompt].state == "queued":
            self._ledger.note("generating", prompt=prompt)
            self._live.generated(self._ledger.account)

    def generated(self, prompt: int, response: int, tokens: int, versions: list[int]) -> None:
        """A response is there, from weights of `versions` (first and last)."""
        self._ledger.note(
            "generated", prompt=prompt, response=response, tokens=tokens, versions=versions
        )
        self._live.generated(self._ledger.account)

    def scored(
        self, prompt: int, response: int, source: str, status: str, reason: str,
        score: float | None, seconds: float,
    ) -> None:  # fmt: skip
        """Take in the verdict on a response, `seconds` after it was asked for."""
        self._tally.add(source, status, reason, seconds)
        self._ledger.note(
            "scored", prompt=prompt, response=response, status=status, reason=reason, score=score,
            seconds=seconds,
        )  # fmt: skip
        self._live.scored(self._ledger.account)

    def counted(self, counts: dict[str, int]) -> None:
        """Take in what a response did that the ledger has no word for."""
        self._tally.count(counts)

    def _report(self, step: int, metrics: Metrics) -> None:
        self._alive()
        self._reports.append((step, dict(metrics)))

    def _alive(self) -> None:
        self._event = time.monotonic()


def opened(config: RlConfig, place: Place) -> Ledger:
    """The run's ledger, as of the checkpoint it resumes from."""
    plan = {"seed": place.seed, "sources": config.shares() or sorted(config.sources)}
    plan |= {"prompts_per_step": config.prompts_per_step, "group": config.group}
    return Ledger(place.ledger, step_of(place.resume), plan)


def written(config: Any, place: Place) -> str:
    """verl's resolved config as YAML; the folders of a run are named by what they are.

    So equal runs have equal configs, wherever they are.
    """
    from omegaconf import OmegaConf

    text = str(OmegaConf.to_yaml(config, sort_keys=True))
    return text.replace(str(place.model.parent), "START").replace(str(place.ledger.parent), "WORK")


def compose(settings: Mapping[str, Any]) -> Any:
    """verl's PPO config with `settings` (dotted key -> value) in place, resolved.

    ValueError names a setting that verl does not have.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra_compose("ppo_trainer", overrides=["model_engine=dp"])
    for key, value in settings.items():
        parent, _, leaf = key.rpartition(".")
        section = OmegaConf.select(config, parent)
        if not key.startswith(_OPEN) and (section is None or leaf not in list(section)):
            raise ValueError(f"verl {VERL_VERSION} has no setting {key}; check `overrides`")
        OmegaConf.update(config, key, value, force_add=True)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    return config


def clear(patience: float = 60.0) -> None:
    """Remove what a run left in this Ray session and wait until it is gone.

    Actors die with their runner, but Ray keeps a dead actor's placement groups for as long as the
    job lives. verl's names are fixed, so a session holds one run at a time: whatever bears such a
    name is a leftover. RunLostError if it stays.
    """
    deadline = time.monotonic() + patience
    while left := _left():
        if time.monotonic() > deadline:
            raise RunLostError(f"an earlier run does not go away: {', '.join(left)}")
        time.sleep(0.1)


def _left() -> list[str]:
    """Names of a run's placement groups, now being removed, and of its actors."""
    groups = ray.util.placement_group_table()
    names = []
    for key, group in groups.items():
        if _GROUP in group["name"] and group["state"] != "REMOVED":
            handle = PlacementGroup(ray.PlacementGroupID.from_hex(key))
            ray.util.remove_placement_group(handle)
            names.append(group["name"])
    actors = [str(actor["name"]) for actor in ray.util.list_named_actors(all_namespaces=True)]
    return names + [name for name in actors if any(part in name for part in _ACTORS)]


@contextmanager
def _runner(executable: str | None, config: RlConfig, place: Place) -> Iterator[Any]:
    environment = {"py_executable": executable} if executable else {}
    actor = (
        ray.remote(Runner)
        .options(name=RUNNER, num_cpus=0, max_concurrency=2, runtime_env=environment or None)
        .remote(config, place)
    )
    try:
        yield actor
    finally:
        ray.kill(actor)
        clear()


def train(
    config: RlConfig,
    place: Place,
    profile: Profile,
    report: Callable[[int, Metrics], None],
    alive: Callable[[], None],
    executable: str | None = None,
) -> None:
    """Run to the last step, from `place.resume` if given; checkpoints appear as they are made.

    `report` gets each finished step, `alive` is called every `_PACE` seconds, `executable` is what
    Ray starts worker processes with. RunLostError when a process died or
    nothing happened for `limits.silence` seconds; RuntimeError with the reason when a limit is
    exceeded.
    """
    settings = overrides(config, place, profile)
    clear()
    with _runner(executable, config, place) as runner:
        done = runner.run.remote(settings)
        try:
            while not ray.wait([done], timeout=_PACE)[0]:
                _listen(runner, config.limits, report)
                alive()
            ray.get(done)
            _listen(runner, config.limits, report)
        except RayError as fault:
            traceback.print_exc()  # a chain of Ray errors does not survive pickling
            raise _explained(fault) from None


def _listen(runner: Any, limits: LimitsConfig, report: Callable[[int, Metrics], None]) -> None:
    pulse: Pulse = ray.get(runner.pulse.remote(), timeout=limits.silence)
    for step, metrics in pulse.reports:
        report(step, metrics)
    if pulse.idle > limits.silence:
        raise RunLostError(f"nothing happened for {pulse.idle:.0f} s (limits.silence)")


def _explained(fault: RayError) -> Exception:
    """The error at the bottom of `fault`; a lost process or port as RunLostError."""
    cause: BaseException = fault
    while isinstance(cause, RayTaskError) and cause.cause is not None:
        cause = cause.cause
    if isinstance(cause, RayError):
        summary = " ".join(line.strip() for line in str(cause).splitlines()[:4])
        return RunLostError(f"a process of the run was lost ({type(cause).__name__}): {summary}")
    assert isinstance(cause, Exception)
    return RunLostError(f"a port was taken: {cause}") if _port_taken(cause) else cause


def _port_taken(cause: Exception) -> bool:
    """Whether `cause` says that an address was in use.

    verl and vLLM choose a free port some time before they listen on it, and any process of the
    machine may take it in between: that says nothing of the run.
    """
    return getattr(cause, "errno", None) == errno.EADDRINUSE or "EADDRINUSE" in str(cause)
