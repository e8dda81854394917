"""The whole chain once, disturbed at each joint, must end as if nothing had happened.

One run of `recipes/smoke.yaml` serves all tests of this file: an RL start costs minutes.
"""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.gates import Finding
from posttrain.journal import Journal
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.registry import Registry
from posttrain.store import Store
from posttrain.warden import marked
from tests.core.runs import command, posttrain, worker_of
from tests.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

RECIPE = "recipes/smoke.yaml"
STEP_WITHIN = 400.0


class Disturbed:
    """A run of the smoke recipe and the processes it consists of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "store")
        self.journal = Journal(self.store, "smoke")
        self.controller = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with (self.folder / "out").open("ab") as out:
            return subprocess.Popen(command(self.folder, "run", RECIPE), stdout=out, stderr=out)

    def output(self) -> str:
        """All that the controllers printed."""
        return (self.folder / "out").read_text()

    def token(self) -> str:
        """The mark of the present controller's processes."""
        lease = json.loads((self.folder / "store/runs/smoke/lease.json").read_text())
        return str(lease["token"])

    def process(self, words: str) -> int | None:
        """The id of a process of this run whose command line contains `words`."""
        for pid in marked(self.token()):
            try:
                text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if words in text:
                return pid
        return None

    def step(self, stage: str) -> int:
        """The last step `stage` reported in its present attempt."""
        sign = self.journal.latest(stage)
        return int(sign["step"]) if sign else 0

    def events(self, event: str, stage: str) -> list[dict[str, object]]:
        """The journal's events of one kind for one stage."""
        return [e for e in self.journal.events() if (e["event"], e["stage"]) == (event, stage)]

    def wait(self, holds: Callable[[], bool], within: float = STEP_WITHIN) -> None:
        """Fail with the run's output if `holds` does not come true, or the controller ends."""
        eventually(lambda: holds() or self.controller.poll() is not None, within)
        assert holds(), self.output()[-4000:]

    def kill(self, pid: int | None) -> None:
        """kill -9 a process that must be there."""
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        """kill -9 the controller, see that nothing of it stays, and start it again."""
        token = self.token()
        self.kill(self.controller.pid)
        self.controller.wait(10)
        assert eventually(lambda: not marked(token), 30)
        for artifact in self.store.artifacts():
            artifact.verify()
        self.controller = self._start()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    """The disturbed run, ended."""
    run = Disturbed(tmp_path_factory.mktemp("smoke"))
    run.wait(lambda: run.step("base") >= 10)
    run.kill(run.process("posttrain.training.pretraining"))
    run.wait(lambda: len(run.events("started", "base")) == 2 and run.step("base") >= 40)
    run.restart()
    run.wait(lambda: run.step("sft") >= 5)
    run.kill(worker_of(run.journal, "sft"))
    run.wait(lambda: run.step("rl") >= 1)
    run.kill(run.process("rewards serve"))
    run.wait(lambda: run.step("rl") >= 2)
    before = len(run.events("started", "rl"))
    run.kill(run.process("VLLM::") or run.process("ray::vLLMHttpServer"))
    run.wait(lambda: len(run.events("started", "rl")) > before)
    run.wait(lambda: worker_of(run.journal, "dpo") is not None)
    run.kill(worker_of(run.journal, "dpo"))
    run.wait(lambda: run.step("sdpo") >= 1)
    run.kill(run.process("rewards serve"))
    assert run.controller.wait(900) == 0, run.output()[-4000:]
    return run


def test_the_result_has_the_keys_of_an_undisturbed_run(run: Disturbed, tmp_path: Path) -> None:
    planned = resolve(load(Path(RECIPE)), Store(tmp_path))
    made = run.store.by_key()
    assert {node.key for node in planned.nodes.values()} <= made.keys()
    for artifact in made.values():
        artifact.verify()


def test_killed_stages_went_on_where_they_were(run: Disturbed) -> None:
    assert run.events("failed", "base")[0]["retried"]
    assert run.events("failed", "sft")[0]["retried"]
    assert run.events("failed", "rl")[0]["retried"]
    assert run.events("failed", "dpo")[0]["retried"]
    assert run.events("service restarted", "rewards")
    signs = [line for line in _steps(run.journal.progress("rl")) if line > 0]
    assert signs[0] > 1, "the second attempt at rl began anew"


def _steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_rollouts_are_of_the_weights_that_were_trained(run: Disturbed) -> None:
    metrics = run.store.get("smoke/rl@1").record.metrics
    assert metrics["correlation"] > 0.999


def test_rope_survives_every_hand_over(run: Disturbed) -> None:
    names = ("sft", "long", "rl", "dpo", "sdpo")
    ropes = {name: run.store.get(f"smoke/{name}@1").record.facts["rope"] for name in names}
    assert ropes["long"] != ropes["sft"]
    assert ropes["rl"] == ropes["dpo"] == ropes["sdpo"] == ropes["long"]


def test_each_distilled_response_tells_its_origin(run: Disturbed) -> None:
    charter = hashlib.sha256(Path("recipes/charters/tiny.md").read_bytes()).hexdigest()
    made = run.store.get("smoke/sdpo@1")
    spans = [json.loads(line) for line in (made.path / "spans.jsonl").read_text().splitlines()]
    assert {span["step"] for span in spans} == set(range(1, made.record.facts["steps"] + 1))
    assert {(span["charter_sha256"], span["judge"]) for span in spans} == {(charter, "rules")}
    assert all(len(span["prompt_sha256"]) == 64 for span in spans)


def test_the_candidate_moved_through_its_gates(run: Disturbed) -> None:
    assert Registry(run.store).aliases() == {"candidate": "smoke/sdpo@1"}
    assert "gate equivalence: holds" in run.output()


def test_nothing_is_left_and_nothing_runs_twice(run: Disturbed) -> None:
    assert not marked(run.token())
    before = run.journal.events()
    again = posttrain(run.folder, "run", RECIPE)
    assert again.returncode == 0
    assert "nothing to do" in again.stdout
    assert run.journal.events() == before


def test_a_damaged_checkpoint_is_not_promoted(run: Disturbed) -> None:
    weights = run.store.get("smoke/sdpo@1").path / "model" / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-4] + bytes(4))
    try:
        refused = posttrain(run.folder, "promote", "smoke/sdpo@1", "--to", "release")
    finally:
        weights.write_bytes(before)
    assert refused.returncode == 3
    assert "model.safetensors differs from its record" in refused.stdout.replace("\n", " ")
    assert "release" not in Registry(run.store).aliases()


def test_an_alias_can_be_rolled_back(run: Disturbed) -> None:
    registry = Registry(run.store)
    registry.promote(run.store.get("smoke/sft@1"), "trial", [Finding("by hand", True, "a test")])
    assert posttrain(run.folder, "promote", "smoke/sdpo@1", "--to", "trial").returncode == 0
    back = posttrain(run.folder, "rollback", "trial")
    assert "trial: smoke/sdpo@1 -> smoke/sft@1" in back.stdout
    assert registry.aliases()["trial"] == "smoke/sft@1"
