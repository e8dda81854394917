"""The controller: executes a plan on Ray until every node is committed or one has failed.

It holds the run's lease and its services, starts what `schedule` says, journals each transition,
and starts a stage again when its process died. It owns no result: results are in the store. What
is silent for longer than its bound ends the run, which then takes no longer than its drain.
"""

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

import ray
from ray.exceptions import (
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)

from posttrain import errors, lease, schedule
from posttrain.execution import assign, execute
from posttrain.journal import Journal
from posttrain.liveness import Stalled, Watch
from posttrain.plan import Node, Plan
from posttrain.schedule import Failure
from posttrain.services import Rewards
from posttrain.signs import COMPONENTS, components
from posttrain.stages import ProcessLost
from posttrain.store import Store
from posttrain.warden import Warden

_TICK = 0.2
_BEAT = 1.0


class StageFailed(RuntimeError):
    """A stage ended the run; the message says which, why and what to do."""


@dataclass
class Attempt:
    """A stage being executed: its task, when it was started and how often before."""

    node: Node
    task: "ray.ObjectRef[str]"
    number: int
    started: float = field(default_factory=time.time)


class Controller:
    """Executes one plan. Ray must be connected, the run's lease held and `warden` open."""

    def __init__(
        self, plan: Plan, store: Store, cores: int, watch: Callable[["Controller"], None],
        warden: Warden,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.journal = Journal(store, plan.recipe.name)
        self.running: dict[str, Attempt] = {}
        self.addresses = {
            node.name: node.cached.address for node in plan.nodes.values() if node.cached
        }
        self._store = store
        self._cores = cores
        self._watch = watch
        self._warden = warden
        self._silences = Watch()
        self._beaten = 0.0
        self._attempts: dict[str, int] = {}
        self._ahead: list[object] = []
        self._services = self._needed_services()

    def run(self) -> dict[str, str]:
        """Node -> address of its artifact, for the whole plan. Raises StageFailed or Stalled."""
        with ExitStack() as closing:
            for service in self._services.values():
                service.start()
                closing.callback(service.stop)
            closing.callback(self._cancel_all)
            closing.push(self._bound_the_end)
            backend = self.plan.recipe.backend
            kinds = {node.kind: node for node in self.plan.pending()}
            self._ahead = [node.config.ahead(backend) for node in kinds.values()]
            while len(self.addresses) < len(self.plan.nodes):
                self._step()
                self._beat()
                self._watch(self)
        return self.addresses

    def _beat(self) -> None:
        if time.monotonic() - self._beaten >= _BEAT:
            self._beaten = time.monotonic()
            self._warden.beat()
            lease.renew(self._store, self.plan.recipe.name)

    def _bound_the_end(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What is silent may not answer when it is asked to end."""
        if isinstance(fault, Stalled):
            last_words = errors.line(str(fault), errors.STALLED)
            drain, code = self.plan.recipe.stalls.drain, errors.STALLED.exit.value
            self._warden.end_within(drain, last_words, code)

    def _needed_services(self) -> dict[str, Rewards]:
        needed = {name for node in self.plan.pending() for name in node.config.services()}
        config = self.plan.recipe.services.rewards
        if "rewards" not in needed or config is None:
            return {}
        bound = self.plan.recipe.stalls.service
        return {"rewards": Rewards(config, self._store, self.plan.recipe.name, bound)}

    def _step(self) -> None:
        active = {name: attempt.node for name, attempt in self.running.items()}
        for node in schedule.startable(self.plan, self.addresses, active, self._cores):
            self._start(node)
        self._supervise_services()
        tasks = {attempt.task: attempt for attempt in self.running.values()}
        finished, _ = ray.wait(list(tasks), timeout=_TICK)
        for task in finished:
            self._finish(tasks[task])
        for attempt in self.running.values():
            self.check_alive(attempt)

    def _start(self, node: Node) -> None:
        for name in node.config.services():
            if self._services[name].await_ready():
                self.journal.record("service restarted", name)
            self.journal.record("service ready", name, url=self._services[name].url)
        urls = {name: service.url for name, service in self._services.items()}
        number = self._attempts.get(node.name, 0) + 1
        self._attempts[node.name] = number
        self.journal.record("started", node.name, attempt=number, key=node.key)
        self.journal.progress(node.name).unlink(missing_ok=True)
        shutil.rmtree(self.journal.work(node.name) / COMPONENTS, ignore_errors=True)
        self._silences.forget(node.name)
        assignment = assign(node, self.plan.recipe, self._store, self.addresses, urls)
        remote = ray.remote(execute).options(
            name=f"{self.plan.recipe.name}/{node.name}", num_cpus=0, max_retries=0,
            resources={"cores": min(node.config.cores(), self._cores)},
        )  # fmt: skip
        self.running[node.name] = Attempt(node, remote.remote(assignment), number)

    def _finish(self, attempt: Attempt) -> None:
        name = attempt.node.name
        del self.running[name]
        try:
            address = ray.get(attempt.task, timeout=60)
        except RayError as fault:
            self._failed(attempt, diagnose(attempt.node, fault))
            return
        self.addresses[name] = address
        seconds = self._seconds(attempt)
        self.journal.record("committed", name, address=address, seconds=seconds)

    def _failed(self, attempt: Attempt, failure: Failure) -> None:
        name = attempt.node.name
        retried = schedule.again(failure, attempt.number)
        self.journal.record("failed", name, reason=failure.message, retried=retried)
        if not retried:
            raise StageFailed(
                f"stage {name} failed: {' '.join(failure.message.split())}; log: "
                f"{self.journal.log(name)}; the same command continues from its last checkpoint"
            )

    def check_alive(self, attempt: Attempt) -> None:
        """Stalled if the stage, or a component that waits for nobody, was silent for too long."""
        name = attempt.node.name
        self._check(name, name, self.journal.heard(name))
        for part in components(self.journal.work(name)):
            if part.waits_for:  # Who waits is not to blame; the one it waits for is watched too.
                self._silences.forget(f"{name}/{part.name}")
            else:
                self._check(name, f"{name}/{part.name}", part.times)

    def _check(self, stage: str, part: str, signs: Sequence[float]) -> None:
        """Stalled if `part` of `stage`, which gave `signs`, has been silent for too long."""
        # Signs are stamped to the millisecond, in which there may be two.
        silence = self._silences.silence(part, (len(signs), *signs[-1:]))
        bound = self.plan.recipe.stalls.earned(signs)
        if silence <= bound:
            return
        self.journal.record("stalled", stage, part=part, silence=round(silence, 1), bound=bound)
        raise Stalled(
            f"{part} gave no sign of life for {silence:.0f} s (its bound is {bound:.0f} s; floor "
            f"and ceiling are `stalls` of the recipe); log: {self.journal.log(stage)}; `posttrain "
            f"stalls {self.plan.recipe.name}` tells more, and the same command continues"
        )

    def _supervise_services(self) -> None:
        for name, service in self._services.items():
            if service.supervise():
                self.journal.record("service restarted", name)

    def _seconds(self, attempt: Attempt) -> dict[str, float]:
        """Seconds before the first step and from there to the end."""
        now = time.time()
        first = self.journal.first_step(attempt.node.name)
        begun = min(max(first if first else attempt.started, attempt.started), now)
        return {"startup": round(begun - attempt.started, 2), "work": round(now - begun, 2)}

    def _cancel_all(self) -> None:
        for attempt in self.running.values():
            ray.cancel(attempt.task, force=True, recursive=True)
        self.running.clear()


def diagnose(node: Node, fault: RayError) -> Failure:
    """What a failed task's error means for its stage, in one line."""
    if isinstance(fault, OutOfMemoryError):
        return Failure(
            False,
            f"out of memory: Ray ended it at its memory limit on the node; lower stages.{node.name}"
            ".batch or its context length, or give the machine more memory",
        )
    if isinstance(fault, WorkerCrashedError | RayActorError | TaskCancelledError):
        return Failure(True, "its process died (killed, or out of memory: see the kernel log)")
    cause = fault.cause if isinstance(fault, RayTaskError) else fault
    if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
        return Failure(False, f"disk full while writing {cause.filename or 'the store'}; free some")
    if isinstance(cause, MemoryError):
        return Failure(
            False, f"out of memory; lower stages.{node.name}.batch or its context length"
        )
    if isinstance(cause, ValueError):
        return Failure(False, str(cause))
    if isinstance(cause, ProcessLost | WorkerCrashedError | RayActorError):
        return Failure(True, str(cause))
    return Failure(False, f"{cause.__class__.__name__}: {cause}")
