"""One RL run of the benchmark in a process of its own: `python -m tests.bench.rl_run SPEC RESULT`.

Writes the time and metrics of each step, and the held-out accuracy of what came out.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ANSWER = 32
"""Most tokens of an answer, without its tail."""

WITHIN = 900.0
"""Seconds after which a run is given up."""


@dataclass(frozen=True)
class Spec:
    """A run: `mode` is in-turn, streamed or async; paths are of artifacts; `latency` in seconds."""

    mode: str
    staleness: int
    latency: float
    seed: int
    steps: int
    prompts_per_step: int
    group: int
    places: int
    tail: tuple[float, float, int]
    store: str
    checkpoint: str
    data: str
    rewards: str

    @property
    def name(self) -> str:
        """Tells it from others."""
        return f"{self.mode}-{self.staleness}-{self.latency:g}-{self.seed}"


def tail(draw: random.Random, middle: float, spread: float, most: int) -> int:
    """Tokens to add: lognormal about `middle`, `spread` its sigma, from 1 to `most`."""
    return min(most, 1 + int(middle * draw.lognormvariate(0, spread)))


Step = dict[str, float]


def run(spec: Spec) -> list[Step]:
    """Train inside a Ray session; the metrics of each step, `ended` being its end on one clock."""
    import ray

    from posttrain.backends import profile
    from posttrain.cluster import connected

    backend = profile("cpu")
    os.environ.update(backend.environment)
    with connected(None, backend):
        task = ray.remote(_trained).options(num_cpus=0, max_retries=0).remote(asdict(spec))
        found: list[Step] = ray.get(task, timeout=WITHIN)
    return found


def _trained(told: Mapping[str, Any]) -> list[Step]:
    from posttrain.backends import profile
    from posttrain.rl.workers import workers

    spec, backend = Spec(**told), profile("cpu")
    os.environ.update(backend.environment)
    with tempfile.TemporaryDirectory() as folder, workers(backend) as executable:
        steps = (_asynchronous if spec.mode == "async" else _synchronous)(
            spec, Path(folder), executable
        )
        steps[-1] |= _examined(spec, Path(folder))
    return steps


def _asynchronous(spec: Spec, folder: Path, executable: str | None) -> list[Step]:
    from posttrain.backends import profile
    from posttrain.rl import session

    steps: list[Step] = []

    def report(step: int, metrics: Mapping[str, float]) -> None:
        steps.append({**metrics, "step": step})

    session.train(
        _config(spec), _place(spec, folder), profile("cpu"), report, lambda: None, executable
    )
    return steps


def _synchronous(spec: Spec, folder: Path, executable: str | None) -> list[Step]:
    import ray

    from posttrain.backends import profile
    from posttrain.rl.config import overrides
    from posttrain.rl.tally import RUNNER
    from tests.bench.rl_sync import SyncRunner

    config, place = _config(spec), _place(spec, folder)
    settings = overrides(config, place, profile("cpu")) | _together(spec)
    environment = {"py_executable": executable} if executable else {}
    runner = (
        ray.remote(SyncRunner)
        .options(name=RUNNER, num_cpus=0, max_concurrency=2, runtime_env=environment or None)
        .remote(config, place)
    )
    ray.get(runner.run.remote(settings), timeout=WITHIN)
    return [{**metrics, "step": step} for step, metrics in ray.get(runner.pulse.remote()).reports]


def _together(spec: Spec) -> dict[str, Any]:
    """verl's settings of the synchronous trainer, on both accelerators."""
    micro = spec.prompts_per_step * spec.group // 2
    return {
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": micro,
        "trainer.v1.trainer_mode": "sync",
        "actor_rollout_ref.hybrid_engine": True,
        "actor_rollout_ref.rollout.nnodes": 0,
        "actor_rollout_ref.rollout.checkpoint_engine.backend": "naive",
        "trainer.n_gpus_per_node": 2,
        "data.shuffle": True,
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "reward",
        "algorithm.filter_groups.max_inflight_gen_batches": 2,
    }


def _config(spec: Spec) -> Any:
    from posttrain.rl.config import RlConfig

    return RlConfig.model_validate(
        {
            "sources": {"sums": {"data": "sums", "verifier": "answer"}},
            "group": spec.group, "prompts_per_step": spec.prompts_per_step, "steps": spec.steps,
            "staleness": spec.staleness, "checkpoint_every": spec.steps,
            "lengths": {"prompt": 96, "response": ANSWER + spec.tail[2]},
            "optimizer": {"adamw": {"lr": 4e-4, "betas": [0.9, 0.95]}},
        }
    )  # fmt: skip


def _place(spec: Spec, folder: Path) -> Any:
    from posttrain.data.chat import ChatFormat
    from posttrain.rl import prompts
    from posttrain.rl.config import Place
    from posttrain.training.checkpoint import load_tokenizer

    start, data = _artifact(spec, spec.checkpoint), _artifact(spec, spec.data)
    chat = ChatFormat.from_tokenizer(load_tokenizer(start.path, start.record.facts))
    place = Place(start.path / "model", folder, None, spec.seed)
    config = _config(spec)
    prompts.freeze(config, {"sums": data.path}, chat, spec.seed, place.prompts)
    loop = {
        "name": "answer", "_target_": "tests.bench.rl_loop.TailedLoop", "rewards": spec.rewards,
        "tail": list(spec.tail), "latency": spec.latency, "places": spec.places,
        "in_turn": spec.mode == "in-turn", "seed": spec.seed,
        "room": config.lengths.response,
    }  # fmt: skip
    place.agents.write_text(json.dumps([loop]))
    return place


def _artifact(spec: Spec, address: str) -> Any:
    from posttrain.store import Store

    return Store(Path(spec.store)).get(address)


def _examined(spec: Spec, folder: Path) -> Step:
    """Held-out accuracy of the last checkpoint."""
    from posttrain.evaluation.scoring import Examiner
    from posttrain.evaluation.suites import Answers
    from posttrain.rl import export
    from posttrain.rl.checkpoints import announce, latest
    from posttrain.store import Artifact

    announce(folder / "checkpoints", spec.steps)
    start, trained = _artifact(spec, spec.checkpoint), latest(folder / "checkpoints")
    assert trained is not None
    facts = export.export(start.path, start.record.facts, trained, folder / "exported")
    record = start.record.model_copy(update={"facts": facts})
    examiner = Examiner(Artifact(folder / "exported", record), spec.rewards, seed=1)
    suite = Answers(kind="answers", data="sums.holdout")
    found = examiner.measure(suite, _artifact(spec, spec.data).path)
    return {name: found[name] for name in ("accuracy", "standard_error", "n")}


def main() -> None:
    """Run what the file SPEC says."""
    spec = Spec(**json.loads(Path(sys.argv[1]).read_text()))
    begun = time.monotonic()
    steps = run(spec)
    told = {"spec": asdict(spec), "seconds": time.monotonic() - begun, "steps": steps}
    Path(sys.argv[2]).write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
