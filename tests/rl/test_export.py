import json
from pathlib import Path

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from posttrain.conversion import shards
from posttrain.rl import checkpoints
from posttrain.rl.config import Place
from posttrain.rl.export import Log, records, summary
from posttrain.rl.ledger import ARCHIVED, Events, Ledger
from posttrain.simulation.distributions import CountsConfig
from posttrain.simulation.measured import settings_of
from posttrain.training.process import single_process_group


def test_shards_of_two_ranks_are_joined(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(6, 2)
    with single_process_group("cpu"):
        mesh = init_device_mesh("cpu", (1,))
        for rank, part in enumerate(whole.chunk(2)):
            shard = DTensor.from_local(
                part.clone(), mesh, [Shard(0)], run_check=False,
                shape=whole.shape, stride=whole.stride(),
            )  # fmt: skip
            copied = DTensor.from_local(torch.ones(2), mesh, [Replicate()], run_check=False)
            state = {"rows": shard, "copied": copied, "plain": torch.zeros(1)}
            torch.save(state, tmp_path / f"model_world_size_2_rank_{rank}.pt")
    weights = shards.whole(tmp_path)
    assert torch.equal(weights["rows"], whole)
    assert torch.equal(weights["copied"], torch.ones(2))
    assert type(weights["rows"]) is torch.Tensor


def test_the_log_forgets_steps_that_are_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = Log(path, resumed=0)
    for step in (1, 2, 3):
        first.add(step, {"reward": step / 10})
    path.write_text(path.read_text() + '{"step": 4, "rew')  # torn by a crash
    resumed = Log(path, resumed=2)
    resumed.add(3, {"reward": 0.9})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == resumed.rows
    assert [(row["step"], row["reward"]) for row in rows] == [(1, 0.1), (2, 0.2), (3, 0.9)]


def test_the_summary_keeps_the_worst_of_what_is_bounded() -> None:
    dropped = {"dropped_equal": 2, "dropped_stale": 0, "dropped_faults": 1}
    rows = [
        {"reward": 0.1, "correlation": 1.0, "staleness": 0, "staleness_p99": 0, **dropped},
        {"reward": 0.3, "correlation": 0.9995, "staleness": 1, "staleness_p99": 1, **dropped,
         "verdicts.a.scored.unverifiable": 2.0, "verdicts.b.scored.unverifiable": 1.0},
    ]  # fmt: skip
    found = summary(rows)
    assert found["correlation"] == 0.9995
    assert (found["staleness"], found["dropped_equal"]) == (1, 4)
    assert found["unverifiable"] == 3
    assert (found["reward_first"], found["reward_last"]) == (0.1, pytest.approx(0.2))


def _place(work: Path) -> Place:
    return Place(work, work, None, seed=1)


def _trained(work: Path, steps: int = 3) -> Ledger:
    """A ledger of `steps` steps of 2 prompts with 2 responses, 3 and 9 tokens long."""
    ledger = Ledger(work / "ledger.jsonl", 0, {"prompts_per_step": 2, "group": 2, "seed": 1})
    for step in range(1, steps + 1):
        numbers = [2 * step - 2, 2 * step - 1]
        for number in numbers:
            ledger.note("issued", prompt=number, row=number, source="a", version=step - 1)
            for index, tokens in enumerate((3, 9)):
                ledger.note(
                    "generated", prompt=number, response=index, tokens=tokens, versions=[0, 0]
                )
                ledger.note("scored", prompt=number, response=index, status="scored", score=1.0)
        ledger.note("trained", step=step, prompts=numbers)
    (work / "verl.yaml").write_text("data: {}\n")
    return ledger


def test_the_artifact_tells_what_became_of_the_prompts(tmp_path: Path) -> None:
    _trained(tmp_path)
    output = tmp_path / "output"
    output.mkdir()
    facts = records(_place(tmp_path), output)
    assert facts["prompts"] == {"issued": 6, "trained": 6, "filtered": 0, "in_flight": 0}
    assert len(facts["verl_config_sha256"]) == 64
    assert list(Events(output / ARCHIVED)) == list(Events(tmp_path / "ledger.jsonl"))
    assert (output / "verl.yaml").read_text() == "data: {}\n"


def test_the_simulator_reads_the_artifact(tmp_path: Path) -> None:
    _trained(tmp_path)
    records(_place(tmp_path), tmp_path)
    row = {"seconds": 4.0, "seconds_waiting": 2.0, "seconds_sync": 0.5, "dropped_equal": 1.0,
           "dropped_stale": 0.0}  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(3)))
    config = {"prompts_per_step": 2, "group": 2, "staleness": 1}
    (tmp_path / "record.json").write_text(json.dumps({"identity": {"config": config}}))
    found = settings_of(tmp_path)
    assert isinstance(found.length_tokens, CountsConfig)
    assert found.length_tokens.counts == {3: 6, 9: 6}
    assert found.sync.seconds == 0.5


def test_a_ledger_that_does_not_balance_makes_no_artifact(tmp_path: Path) -> None:
    _trained(tmp_path)
    path = tmp_path / "ledger.jsonl"
    lines = path.read_text().replace('"prompts_per_step":2', '"prompts_per_step":1')
    path.write_text(lines)
    with pytest.raises(ValueError, match="step 1 is trained on 2 prompts"):
        records(_place(tmp_path), tmp_path)


def test_only_an_announced_checkpoint_counts_and_others_go(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path) is None
    for step in (5, 10):
        (tmp_path / f"global_step_{step}").mkdir()
        checkpoints.announce(tmp_path, step)
    (tmp_path / "global_step_15").mkdir()  # a crash while saving
    latest = checkpoints.latest(tmp_path)
    assert latest == tmp_path / "global_step_10"
    assert checkpoints.step_of(latest) == 10
    assert not (tmp_path / "global_step_5").exists()
    assert checkpoints.step_of(None) == 0
    assert checkpoints.recover(tmp_path) == latest
    assert [folder.name for folder in tmp_path.glob("global_step_*")] == ["global_step_10"]
