"""Settings taken from a run predict that run, and the same run under other settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import CountsConfig
from posttrain.simulation.engine import Simulation
from posttrain.simulation.measured import POLL_SECONDS, SEQUENCES, derive, settings_of
from posttrain.simulation.outcome import Outcome, simulate
from posttrain.simulation.rules import VerlRule
from posttrain.simulation.settings import Settings
from tests.simulation.cases import made

LENGTHS = {"4": 20, "10": 60, "40": 30, "200": 4}

REAL = made(
    steps=40, group_size=4, prompts_per_step=8, length_tokens={"counts": LENGTHS},
    rollout={
        "accelerators": 1, "slots_per_replica": 32,
        "decode": {"seconds": 0.02, "seconds_per_sequence": 0.0005},
    },
    trainer={"accelerators": 1, "step_seconds": {"median": 2, "p99": 4}},
    sync={"seconds": 0.2}, equal_rewards=0.2, poll_seconds=POLL_SECONDS,
)  # fmt: skip
"""The run that the metrics are of; a token takes 36 ms with all slots live, 20.5 ms alone."""


def run(settings: Settings, staleness: int) -> Outcome:
    return simulate(settings, VerlRule(rule="verl-drop", staleness=staleness))


class Logged(Simulation):
    """Keeps what the RL stage would have written of each step."""

    rows: tuple[dict[str, float], ...] = ()
    before = trained = 0.0

    def _publish(self) -> None:
        seconds, work = self.now - self.before, self.trainer.training_seconds - self.trained
        sync = self.settings.sync.seconds
        row = {"seconds": seconds, "seconds_waiting": seconds - work - sync, "seconds_sync": sync}
        self.rows += (row | {"dropped_equal": self._left, "dropped_stale": 0.0},)
        self.before, self.trained = self.now, self.trainer.training_seconds
        super()._publish()


def metrics(settings: Settings = REAL) -> list[dict[str, float]]:
    """Of the run at staleness 1."""
    done = Logged(settings, VerlRule(rule="verl-drop", staleness=1))
    done.run()
    return list(done.rows)


def config(staleness: int) -> dict[str, Any]:
    return {"group": 4, "prompts_per_step": 8, "staleness": staleness}


@pytest.mark.parametrize("slowness", [1, 4])
@pytest.mark.parametrize(("growth", "staleness"), [(1.0, (1, 2)), (36 / 20.5, (0, 1, 2, 4))])
def test_a_run_and_its_neighbours_are_predicted(
    slowness: float, growth: float, staleness: tuple[int, ...]
) -> None:
    """Where batches wait for their longest response, what a token takes alone must be known."""
    decode = DecodeConfig(seconds=0.02 * slowness, seconds_per_sequence=0.0005 * slowness)
    rollout = REAL.rollout.model_copy(update={"decode": decode})
    real = REAL.model_copy(update={"rollout": rollout})
    found = derive(metrics(real), config(1), CountsConfig(counts=LENGTHS), growth)
    for each in staleness:
        predicted = run(found, each).samples_per_second
        assert predicted == pytest.approx(run(real, each).samples_per_second, rel=0.15)


def test_more_slots_cannot_make_a_token_slower_than_one_after_the_other() -> None:
    with pytest.raises(ValueError, match="growth 40: 32 slots"):
        derive(metrics(), config(1), CountsConfig(counts=LENGTHS), 40)


def folder(place: Path) -> Path:
    rows = metrics()
    (place / "metrics.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (place / "record.json").write_text(json.dumps({"identity": {"config": config(1)}}))
    (place / "lengths.json").write_text(json.dumps(LENGTHS))
    return place


def test_a_stage_s_folder_is_read(tmp_path: Path) -> None:
    found = settings_of(folder(tmp_path))
    assert (found.group_size, found.prompts_per_step) == (4, 8)
    assert [rule.rule for rule in found.rules] == ["count", "windowed", "verl-drop", "verl-wait"]


def test_where_the_engines_run_is_what_the_recipe_said() -> None:
    placed = {
        "trainer": {"nodes": 2, "per_node": 4},
        "rollout": {"nodes": 1, "per_node": 4, "tensor_parallel": 2},
    }
    rows = metrics()
    found = derive(rows, config(1) | {"placement": placed}, CountsConfig(counts=LENGTHS))
    assert (found.trainer.accelerators, found.rollout.accelerators) == (8, 4)
    assert found.rollout.per_replica == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("record.json", None, "record.json: cannot be read"),
        ("lengths.json", None, "lengths.json: cannot be read"),
        ("lengths.json", "{}", "is not what an RL stage leaves"),
        ("metrics.jsonl", "{", "is not what an RL stage leaves"),
        ("metrics.jsonl", '{"seconds": 1}', "is not what an RL stage leaves"),
        ("record.json", '{"identity": {"config": {}}}', "is not what an RL stage leaves"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    place = folder(tmp_path)
    if text is None:
        (place / name).unlink()
    else:
        (place / name).write_text(text)
    with pytest.raises(ValueError, match=message) as fault:
        settings_of(place)
    assert "\n" not in str(fault.value)


def test_what_is_taken_for_granted_of_the_rl_stage_is_so() -> None:
    assert f"POLL = {POLL_SECONDS}\n" in Path("posttrain/rl/buffer.py").read_text()
    assert f"min(sequences, {SEQUENCES})" in Path("posttrain/rl/config.py").read_text()
