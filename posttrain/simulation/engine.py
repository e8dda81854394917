"""A run moved through time, from one event to the next: a sequence ends, a score is there, or the
trainer is done with what it does.

Always holds: a group is trained on once or leaves once; lengths, latencies and equal rewards belong
to the number of a group, so that all rules meet the same prompts.
"""

from collections import deque

from posttrain.simulation.decoding import Pool
from posttrain.simulation.distributions import INFINITE
from posttrain.simulation.group import Group, Response, State
from posttrain.simulation.prompts import Prompts
from posttrain.simulation.rules import Rule
from posttrain.simulation.scoring import Service
from posttrain.simulation.settings import Settings
from posttrain.simulation.trainer import Trainer


class Simulation:
    """A run of `settings` under `rule`, up to the sync of its last step.

    With `barrier` responses are verified only when all that was issued is generated. `groups` are
    all groups by number, `now` is in seconds, `version` counts syncs.
    """

    def __init__(self, settings: Settings, rule: Rule, barrier: bool = False) -> None:
        rollout = settings.rollout
        replicas = rollout.accelerators // rollout.per_replica
        self.settings, self.rule = settings, rule
        self.groups: list[Group] = []
        self.now = 0.0
        self.version = 0
        self.pool = Pool(rollout.decode, replicas, rollout.slots_per_replica)
        self.service = Service(settings.reward)
        self.trainer = Trainer(settings)
        self._prompts = Prompts(settings)
        self._barrier = barrier
        self._line = rule.line(self.groups)
        self._under_way = self._left = 0
        self._flat: list[Group] = []
        self._unverified: list[Response] = []
        self._blocked: deque[Response] = deque()

    def run(self) -> None:
        """Until the last step's weights are out."""
        self._fill()
        self._look()
        while self.version < self.settings.steps:
            self._event()

    def _event(self) -> None:
        """The next thing that happens."""
        pool, service, trainer = self.pool.due, self.service.due, self.trainer.due
        if service <= pool and service <= trainer:
            assert service < INFINITE, "nothing can happen any more"
            self.now = service
            self._scored(self.service.finish())
            self._unblock()
        elif pool <= trainer:
            self.now = pool
            self._generated(self.pool.finish(pool))
        else:
            self.now = trainer
            self._trainer_done()

    # Generation and verification.

    def _fill(self) -> None:
        """Issue as many groups as the rule allows to be under way."""
        prompts = self.settings.prompts_per_step
        room = self.rule.room(prompts, self._under_way, self._line, self._left)
        for _ in range(room):
            group = self._prompts.issue(len(self.groups), self.version)
            self.groups.append(group)
            self.pool.waiting.extend(group.responses)
        self._under_way += max(room, 0)
        self.pool.start(self.now, self.version)

    def _generated(self, response: Response) -> None:
        if self._barrier:
            self._unverified.append(response)
            self.pool.release()
            self.pool.start(self.now, self.version)
            if not self.pool.live:
                ready, self._unverified = self._unverified, []
                for each in ready:
                    self.service.submit(self.now, each)
        else:
            self._submit(response)
        if self.trainer.draining and not self.pool.live:
            self._sync()

    def _submit(self, response: Response) -> None:
        """Have it scored, or keep its slot until there is room."""
        if self.service.full():
            self._blocked.append(response)
            return
        self.pool.release()
        if self.service.instant(response):
            self._scored(response)
        else:
            self.service.submit(self.now, response)
        self.pool.start(self.now, self.version)

    def _unblock(self) -> None:
        while self._blocked and not self.service.full():
            self._submit(self._blocked.popleft())

    def _scored(self, response: Response) -> None:
        group = response.group
        group.left -= 1
        if group.left:
            return
        if group.flat:
            self._flat.append(group)
        else:
            group.move(State.QUEUED, State.FINISHED)
            self._line.add(group)
        if not self.rule.at_look:
            self._filter()
        if self.trainer.watching:
            self._look()

    # Training.

    def _trainer_done(self) -> None:
        if self.trainer.syncing:
            self._publish()
        elif self.trainer.training:
            self._updated()
        else:
            self._look()

    def _look(self) -> None:
        """Let go of what is not to be trained on; train if that leaves a batch."""
        self._filter()
        dropped = self.rule.stale(self._line, self.version)
        if dropped:
            self._leave(len(dropped))
        wanted = self.trainer.wanted
        self.trainer.batch += self.rule.take(self._line, self.version, wanted)
        if self.trainer.wanted:
            self.trainer.wait(self.now)
        else:
            self.trainer.train(self.now)

    def _filter(self) -> None:
        """Groups of equal rewards leave."""
        flat, self._flat = self._flat, []
        for group in flat:
            group.move(State.QUEUED, State.FILTERED)
        self._left += len(flat)
        if flat:
            self._leave(len(flat))

    def _leave(self, groups: int) -> None:
        """So many are no longer under way, and others take their place."""
        self._under_way -= groups
        self._fill()

    def _updated(self) -> None:
        if not self.trainer.finish_update():
            self._look()
            return
        finish = self.settings.sync.in_flight == "finish"
        if finish and self.pool.live:
            self.pool.closed = True
            self.trainer.drain()
        else:
            self._sync()

    def _sync(self) -> None:
        self.pool.pause(self.now)
        self.trainer.sync(self.now)

    def _publish(self) -> None:
        """New weights are out: what was trained on is done with, and the next step begins."""
        trained = self.trainer.publish()
        for group in trained:
            group.move(State.TAKEN, State.TRAINED)
            group.trained = self.version
        self.version += 1
        self._left = 0
        self.pool.resume(self.now)
        self._leave(len(trained))
        if self.version < self.settings.steps:
            self._look()
