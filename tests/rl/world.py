"""verl's own training loop, buffer and checkpoints over stand-ins for what needs accelerators.

TransferQueue is a dict that can be saved, rollouts end at random whenever the queue is looked at,
and the weights are a list of what they were trained on: after any crash it can be compared with
the ledger. A `Killer` ends the process at a named point.
"""

import json
import os
import pickle
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.v1 import replay_buffer, trainer_base
from verl.trainer.ppo.v1.trainer_separate_async import HybridEngineMode
from verl.utils.tensordict_utils import concat_tensordict

from posttrain.backends import profile
from posttrain.rl import buffer, prompts, trainer
from posttrain.rl.account import Account, account, standing
from posttrain.rl.checkpoints import announce, latest, recover, step_of
from posttrain.rl.config import Place, RlConfig, overrides
from posttrain.rl.export import Log
from posttrain.rl.ledger import Events, Ledger
from posttrain.rl.order import Order
from posttrain.rl.session import Runner, compose, opened

GROUP = 2

FEW: Mapping[str, float] = {"a": 0.1, "b": 0.1}
"""Source -> share of its groups that are lost."""


class Killer:
    """SIGKILL at the `hits`th time that `point` is passed."""

    def __init__(self, point: str, hits: int) -> None:
        self._point, self._hits = point, hits

    def at(self, point: str) -> None:
        """Pass a point."""
        if point == self._point:
            self._hits -= 1
            if self._hits == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str, point: str) -> None:
        """Make `owner.name` pass `before POINT` and `after POINT`."""
        wrapped: Callable[..., Any] = getattr(owner, name)

        def passing(*args: Any, **kwargs: Any) -> Any:
            self.at(f"before {point}")
            result = wrapped(*args, **kwargs)
            self.at(f"after {point}")
            return result

        setattr(owner, name, passing)


class Queue:
    """The part of TransferQueue that verl's trainer uses, in memory."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.rows: dict[str, TensorDict] = {}
        self.rewards: dict[str, float] = {}
        self.advance: Callable[[], None] = lambda: None

    def kv_list(self, partition_id: str = "train") -> dict[str, dict[str, dict[str, Any]]]:
        self.advance()
        return {"train": {key: dict(tag) for key, tag in self.tags.items()}}

    def kv_batch_put(
        self, keys: list[str], tags: list[dict[str, Any]], fields: Any = None, **unused: Any
    ) -> None:
        for index, (key, tag) in enumerate(zip(keys, tags, strict=True)):
            self.tags.setdefault(key, {}).update(tag)
            if fields is not None:
                self.rows[key] = fields[index : index + 1]

    def kv_batch_get(self, keys: list[str], **asked: Any) -> Any:
        if asked.get("select_fields"):
            return {"rm_scores": [torch.tensor([self.rewards[key]]) for key in keys]}
        return concat_tensordict([self.rows[key] for key in keys])

    def kv_clear(self, keys: list[str], **unused: Any) -> None:
        for key in keys:
            self.tags.pop(key, None)

    def save_checkpoint(self, folder: str, **unused: Any) -> None:
        Path(folder).parent.mkdir(exist_ok=True, parents=True)
        Path(folder).write_bytes(pickle.dumps((self.tags, self.rows, self.rewards)))

    def load_checkpoint(self, folder: str) -> None:
        self.tags, self.rows, self.rewards = pickle.loads(Path(folder).read_bytes())


class Rollouts:
    """Agent loops: responses begin, end and are scored in random order, one look at a time."""

    def __init__(
        self, queue: Queue, runner: Runner, killer: Killer, faults: Mapping[str, float]
    ) -> None:
        self.version = 0
        self._queue, self._runner, self._killer, self._faults = queue, runner, killer, faults
        self._draw = random.Random(os.urandom(8))
        self._under_way: list[tuple[str, int]] = []
        queue.advance = self._advance

    def generate_sequences(self, batch: TensorDict) -> None:
        for uid in batch["uid"]:
            self._under_way.append((str(uid), self.version))

    def _advance(self) -> None:
        self._draw.shuffle(self._under_way)
        for _ in range(self._draw.randint(0, 3)):
            if self._under_way:
                self._finish(*self._under_way.pop())

    def _finish(self, uid: str, version: int) -> None:
        self._killer.at("before a group")
        self._queue.tags[uid]["status"] = "running"
        source = self._runner._ledger.account.prompts[int(uid)].source
        lost = self._draw.random() < self._faults.get(source, 0.0)
        for index in range(GROUP):
            self._runner.generating(int(uid))
            tokens, reward = self._draw.randint(1, 9), float(self._draw.random() < 0.5)
            self._runner.generated(int(uid), index, tokens, [version, self.version])
            status = "failed" if lost else "scored"
            self._runner.scored(
                int(uid), index, source, status, "", None if lost else reward, seconds=0.1
            )
            self._killer.at("in a group")
            if not lost:
                key = f"{uid}_{index}_0"
                self._queue.rewards[key] = reward
                self._queue.tags[key] = {"min_global_steps": version, "response_len": tokens}
        self._queue.tags[uid]["status"] = "failure" if lost else "finished"
        self._killer.at("after a group")


class Weights:
    """The trainer's worker group: its weights are the prompts they were trained on, in order."""

    def __init__(self) -> None:
        self.trained: list[tuple[int, int]] = []

    def save_checkpoint(self, folder: str, *unused: Any, **more: Any) -> None:
        Path(folder).mkdir(parents=True)
        (Path(folder) / "weights.json").write_text(json.dumps(self.trained))

    def load_checkpoint(self, local_path: str, **unused: Any) -> None:
        self.trained = json.loads((Path(local_path) / "weights.json").read_text())


class Trainer(trainer.CheckedTrainer):
    """All that decides which prompts are trained on, and none of the arithmetic."""

    def assemble(self, weights: Weights, rollouts: Rollouts, killer: Killer) -> None:
        """Stands for `_setup`."""
        self.tokenizer = self.processor = None
        self.actor_rollout_wg, self._rollouts, self._killer = weights, rollouts, killer
        self.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
        self.current_mode = HybridEngineMode.TRAINER
        self._init_dataloader()
        self._init_dump_executor()
        self._load_checkpoint()
        rollouts.version = self.global_steps

    def _balance_batch(self, batch: Any, metrics: Any, **unused: Any) -> Any:
        return batch

    _compute_old_log_prob = _compute_advantage = _balance_batch

    def _update_actor(self, batch: Any, metrics: Any) -> Any:
        self._killer.at("before update")
        for number in sorted({int(key.split("_")[0]) for key in batch.keys}):
            self.actor_rollout_wg.trained.append((self.global_steps, number))
        self._killer.at("after update")
        return batch

    def on_step_end(self) -> None:
        """Stands for the weight sync."""
        self._rollouts.version = self.global_steps

    def _compute_metrics(self, batch: Any, metrics: Any, *args: Any, **kwargs: Any) -> None:
        self._killer.at("before report")
        figures = self._staleness(batch) | self._sources()
        self._report(self.global_steps, figures | dict(self._tally.metrics()))
        self._killer.at("after report")


def place_in(root: Path) -> Place:
    """Where a world lies; what a crash left is cleared as the stage does."""
    return Place(root / "start/model", root, recover(root / "checkpoints"), seed=7)


def settings_of(config: RlConfig, place: Place) -> Any:
    """verl's config, but for the checkpoint to resume from."""
    return compose(overrides(config, place, profile("cpu")))


def attempt(
    root: Path, config: RlConfig, settings: Any, killer: Killer,
    faults: Mapping[str, float] = FEW,
) -> None:  # fmt: skip
    """Train from where the last attempt got to, up to the last step or the kill."""
    queue = Queue()
    for module in (replay_buffer, trainer_base, trainer):
        module.tq = queue
    buffer.POLL = 0
    _pass_points(killer)
    killer.at("before recover")
    place = place_in(root)
    killer.at("after recover")
    if step_of(place.resume) == config.steps:
        return
    log = Log(root / "metrics.jsonl", step_of(place.resume))

    def report(step: int, metrics: Any) -> None:
        log.add(step, metrics)
        if step % config.checkpoint_every == 0 or step == config.steps:
            announce(place.checkpoints, step)

    settings.data.train_files = settings.data.val_files = str(place.prompts)
    settings.trainer.default_local_dir = str(place.checkpoints)
    if place.resume:
        settings.trainer.resume_mode = "resume_path"
        settings.trainer.resume_from_path = str(place.resume)
    runner = Runner(config, place)
    runner._ledger = opened(config, place)
    made = Trainer(
        settings, config, place.seed, runner._ledger, runner._tally, report, lambda: None,
        runner._live,
    )  # fmt: skip
    rollouts = Rollouts(queue, runner, killer, faults)
    made.assemble(Weights(), rollouts, killer)
    made.fit(rollouts)


def _pass_points(killer: Killer) -> None:
    killer.around(Order, "draw", "draw")
    killer.around(Trainer, "_submit_batch_to_rollout", "submit")
    killer.around(Trainer, "_reissue_inflight_prompts", "reissue")
    killer.around(prompts.PromptDataset, "__getitem__", "reading a prompt")
    killer.around(buffer.BoundedBuffer, "sample", "sampling")
    killer.around(buffer.BoundedBuffer, "_materialize_batch", "materialize")
    killer.around(Queue, "kv_batch_put", "putting prompts")
    killer.around(Queue, "kv_clear", "clearing prompts")
    killer.around(Weights, "save_checkpoint", "saving weights")
    killer.around(Queue, "save_checkpoint", "saving the queue")
    killer.around(Queue, "load_checkpoint", "loading the queue")
    killer.around(os, "fsync", "fsync")
    killer.around(shutil, "rmtree", "removing a checkpoint")
    killer.around(Path, "rename", "rename")
    write = Ledger._write

    def writing(ledger: Ledger, line: Any) -> None:
        killer.at(f"before line {line['event']}")
        if killer._point == f"within line {line['event']}":
            killer._hits -= 1
            if killer._hits == 0:
                os.write(ledger._file, json.dumps(line).encode()[: random.randint(1, 60)])
                os.kill(os.getpid(), signal.SIGKILL)
        write(ledger, line)
        killer.at(f"after line {line['event']}")

    Ledger._write = writing  # type: ignore[method-assign]


def begin(root: Path, sources: list[str]) -> None:
    """A new world with a prompt of each of `sources`."""
    root.mkdir()
    rows = [{"ids": [1, 2], "source": source} for source in sources]
    (root / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def config_of(**more: Any) -> RlConfig:
    """Two sources, 4 prompts a step, a checkpoint every 2 steps; faults end nothing."""
    sources = {name: {"data": name, "verifier": "answer"} for name in ("a", "b")}
    return RlConfig.model_validate(
        {"sources": sources, "group": GROUP, "prompts_per_step": 4, "steps": 4,
         "checkpoint_every": 2, "limits": {"faults": "100%"}} | more
    )  # fmt: skip


def check(root: Path, config: RlConfig, sources: list[str]) -> Account:
    """Ledger, weights and order of prompts agree, and all steps are there; returns the account."""
    events = list(Events(root / "ledger.jsonl"))
    found = account(events)
    assert found.imbalance() is None
    counted = [event for event, counts in standing(events) if counts]
    steps = [
        (event["step"], number)
        for event in counted
        if event["event"] == "trained"
        for number in event["prompts"]
    ]
    assert steps == trained(root)
    assert Counter(step for step, _ in steps) == dict.fromkeys(range(1, config.steps + 1), 4)
    assert max(Counter(number for _, number in steps).values()) == 1
    order = Order(sources, config.shares(), seed=7)
    if not found.dropped_sources:
        for number in range(len(found.prompts)):
            place = order.draw()
            assert (found.prompts[number].row, found.prompts[number].source) == place[1:]
    return found


def trained(root: Path) -> list[tuple[int, int]]:
    """What the last checkpoint's weights were trained on: (step, prompt)."""
    folder = latest(root / "checkpoints")
    assert folder is not None
    return [tuple(each) for each in json.loads((folder / "actor" / "weights.json").read_text())]
