"""Real verl and vLLM on a tiny random Apertus, in one Ray session and from one zygote.

Three attempts at one stage: the first trains to step 2 and stops there, the second loses its
rollout server, the third finishes from the checkpoint. Nothing of it may be left at the end.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.backends import profile
from posttrain.rl.account import account
from posttrain.rl.ledger import ARCHIVED, Events
from posttrain.simulation.measured import settings_of
from posttrain.stages import ProcessLost, StageContext

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def _processes(name: str) -> set[int]:
    """Ids of processes below this one whose title contains `name`."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_ours(int(entry.name)):
            try:
                title = (entry / "cmdline").read_bytes().decode()
            except OSError:
                continue
            if name in title:
                found.add(int(entry.name))
    return found


def _is_ours(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _attempt(folder: str, url: str, steps: int) -> dict[str, Any]:
    """One attempt, in a Ray worker."""
    from posttrain.stages import rl

    root = Path(folder)
    config = {
        "from": "start", "sources": {"coins": {"data": "prompts", "verifier": "coin"}},
        "group": 4, "prompts_per_step": 4, "steps": steps, "checkpoint_every": 2,
        "lengths": {"prompt": 96, "response": 16}, "limits": {"silence": 120},
        "optimizer": {"adamw": {"lr": 1e-3}},
    }  # fmt: skip
    facts = json.loads((root / "facts.json").read_text())
    start = SimpleNamespace(path=root / "start", record=SimpleNamespace(facts=facts))
    output = root / f"output-{steps}-{time.monotonic_ns()}"
    output.mkdir()
    (root / "work").mkdir(exist_ok=True)
    signs: list[tuple[int, dict[str, float]]] = []
    (root / "signs").write_text("")

    def report(progress: Any) -> None:
        if progress.phase == "train":  # before, it is a sign of life without a new step
            signs.append((progress.step, dict(progress.metrics)))
        (root / "signs").write_text(str(progress.step))

    context: Any = StageContext(
        name="rl", config=rl.Config.model_validate(config),
        inputs={"from": start, "data.prompts": SimpleNamespace(path=root / "prompts")},
        output=output, work=root / "work", seed=7, backend="cpu", services={"rewards": url},
        suites={}, report=report,
    )  # type: ignore[arg-type]  # fmt: skip
    outcome = rl.run(context)
    return {
        "steps": signs,
        "metrics": outcome.metrics,
        "facts": outcome.facts,
        "output": str(output),
    }


def _world(root: Path) -> None:
    """A random model with its tokenizer, its facts, and prompts."""
    from posttrain.data import tiny
    from posttrain.data.tokenizer import row_texts, train_tokenizer
    from posttrain.training.checkpoint import save_model
    from posttrain.training.model import ModelConfig, build

    texts = [text for row in tiny.dialogues(0, 200) for text in row_texts(row)]
    tokenizer = train_tokenizer(texts, 600)
    sizes = {"hidden": 64, "layers": 2, "heads": 2, "feed_forward": 128, "vocabulary": 600}
    model = build(ModelConfig(architecture="apertus", **sizes), tokenizer, seed=1)
    facts = save_model(model, tokenizer, root / "start" / "model")
    (root / "facts.json").write_text(json.dumps(facts))
    (root / "prompts").mkdir()
    rows = tiny.prompts(3, 40, thinking=0.5)
    (root / "prompts" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the three attempts came to."""
    import ray

    from posttrain.cluster import connected
    from posttrain.rl.workers import warm
    from tests.rewards.service import serving

    root = tmp_path_factory.mktemp("rl")
    _world(root)
    backend = profile("cpu")
    with (
        serving(tmp_path_factory.mktemp("rewards"), "--verifiers", "coin=tests.rl.coin") as service,
        connected(None, backend),
    ):
        keeper = warm(backend)
        attempt = ray.remote(num_cpus=0, max_retries=0)(_attempt)
        first = ray.get(attempt.remote(str(root), service.url, 2))
        second = attempt.remote(str(root), service.url, 6)
        _kill_rollout_server_after(root / "signs", step=3)
        fault: Exception | None = None
        begun = time.monotonic()
        try:
            ray.get(second)
        except ray.exceptions.RayTaskError as error:
            fault = error.cause
        ended = time.monotonic() - begun
        third = ray.get(attempt.remote(str(root), service.url, 6))
        left = _processes("ray::vLLMHttpServer") | _processes("ray::WorkerDict")
        named = ray.util.list_named_actors(all_namespaces=True)
        yield {
            "first": first, "fault": fault, "ended": ended, "third": third, "left": left,
            "actors": {actor["name"] for actor in named}, "root": root,
        }  # fmt: skip
        del keeper


def _kill_rollout_server_after(signs: Path, step: int) -> None:
    deadline = time.monotonic() + 240
    while (signs.read_text() or "0") < str(step) and time.monotonic() < deadline:
        time.sleep(0.05)
    servers = _processes("ray::vLLMHttpServer")
    assert servers, "no rollout server to kill"
    for pid in servers:
        os.kill(pid, signal.SIGKILL)


def test_every_sync_is_verified_and_staleness_bounded(attempts: dict[str, Any]) -> None:
    rows = [metrics for _, metrics in attempts["first"]["steps"] if metrics]
    rows += [metrics for _, metrics in attempts["third"]["steps"] if metrics]
    assert rows
    assert all(0.999 < row["correlation"] <= 1 for row in rows)
    assert all(row["log_prob_gap"] <= 1e-5 for row in rows), [row["log_prob_gap"] for row in rows]
    assert all(0 <= row["staleness"] <= 1 for row in rows)
    assert all(0 < row["reward_trained"] < 1 and row["gradient_norm"] > 0 for row in rows)


def test_a_lost_server_ends_the_stage_soon_and_says_so(attempts: dict[str, Any]) -> None:
    assert isinstance(attempts["fault"], ProcessLost)
    assert "a process of the run was lost" in str(attempts["fault"])
    assert attempts["ended"] < 120


def test_the_last_attempt_continues_from_the_checkpoint(attempts: dict[str, Any]) -> None:
    steps = [step for step, metrics in attempts["third"]["steps"] if metrics]
    assert steps[0] in (3, 5)
    assert steps[-1] == 6
    lines = (Path(attempts["third"]["output"]) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_the_checkpoint_keeps_rope_and_tokenizer_and_changes_weights(
    attempts: dict[str, Any],
) -> None:
    from posttrain.training.checkpoint import load_model

    before = json.loads((attempts["root"] / "facts.json").read_text())
    after = attempts["third"]["facts"]
    for name in ("rope", "tokenizer_sha256", "template_sha256"):
        assert after[name] == before[name]
    assert after["weights_sha256"] != before["weights_sha256"]
    model = load_model(Path(attempts["third"]["output"]), after)
    assert model.dtype.is_floating_point
    assert after["optimised_tokens"] > 0


def test_each_step_is_on_record_once_over_all_attempts(attempts: dict[str, Any]) -> None:
    output = Path(attempts["third"]["output"])
    events = list(Events(output / ARCHIVED))
    found = account(events)
    assert found.imbalance() is None
    assert (found.step, found.totals()["trained"]) == (6, 24)
    assert next(event["step"] for event in events if event["event"] == "resumed") == 2
    assert found.totals() == attempts["third"]["facts"]["prompts"]
    lengths = json.loads((output / "lengths.json").read_text())
    assert sum(lengths.values()) == 24 * 4
    assert max(map(int, lengths)) <= 16


def test_the_simulator_reads_what_the_stage_left(attempts: dict[str, Any]) -> None:
    output = Path(attempts["third"]["output"])
    config = {"prompts_per_step": 4, "group": 4, "staleness": 1}
    (output / "record.json").write_text(json.dumps({"identity": {"config": config}}))
    assert settings_of(output).sync.seconds > 0


def test_nothing_is_left_but_the_zygote(attempts: dict[str, Any]) -> None:
    assert attempts["left"] == set()
    assert attempts["actors"] == {"rl_zygote"}
