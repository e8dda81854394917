"""The trainer: waits for a batch, trains, and syncs the weights when a step is whole."""

from posttrain.simulation.distributions import INFINITE, drawer
from posttrain.simulation.group import Group
from posttrain.simulation.settings import Settings


class Trainer:
    """`due` is when it is done with what it does; `batch` is what it holds for its next update."""

    def __init__(self, settings: Settings) -> None:
        self.due = INFINITE
        self.batch: list[Group] = []
        self.watching = self.training = self.syncing = self.draining = False
        self.training_seconds = self.sync_seconds = 0.0
        self._updates = settings.updates_per_step
        self._part = settings.prompts_per_step // settings.updates_per_step
        self._poll = settings.poll_seconds
        self._sync = settings.sync.seconds
        self._draw = drawer(settings.trainer.step_seconds, f"steps {settings.seed}")
        self._trained: list[Group] = []
        self._done = 0
        self._seconds = 0.0

    @property
    def wanted(self) -> int:
        """Groups missing in the batch."""
        return self._part - len(self.batch)

    def wait(self, now: float) -> None:
        """Look again later, or whenever a group is finished."""
        self.watching = not self._poll
        self.due = now + self._poll if self._poll else INFINITE

    def train(self, now: float) -> None:
        """One update on the batch; a step's time is shared among its updates."""
        assert not self.wanted
        if self._done == 0:
            [self._seconds] = self._draw(1)
        self.watching, self.training = False, True
        seconds = self._seconds / self._updates
        self.training_seconds += seconds
        self.due = now + seconds

    def finish_update(self) -> bool:
        """The batch is trained on; whether that was the step's last."""
        self.training = False
        self._trained += self.batch
        self.batch = []
        self._done = (self._done + 1) % self._updates
        self.due = INFINITE
        return self._done == 0

    def drain(self) -> None:
        """Wait until nothing is being generated."""
        self.draining = True

    def sync(self, now: float) -> None:
        """Send the weights."""
        self.draining, self.syncing = False, True
        self.sync_seconds += self._sync
        self.due = now + self._sync

    def publish(self) -> list[Group]:
        """The sync is done; hands over what the step was trained on."""
        self.syncing = False
        self.due = INFINITE
        trained, self._trained = self._trained, []
        return trained
