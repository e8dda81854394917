"""Verifiers are tried on a step's worth of responses before a run, and refused if they fail."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.rl import capacity
from posttrain.rl.capacity import Capacity, Tried, excess, figures, question, remarks, responses
from posttrain.rl.config import RlConfig
from posttrain.rl.prompts import freeze
from rewards.schema import Verdict
from tests.rewards.service import serving


def _config(**source: Any) -> RlConfig:
    return RlConfig.model_validate(
        {"sources": {"sums": {"data": "prompts", "verifier": "answer"} | source}, "steps": 1,
         "prompts_per_step": 4, "group": 3}
    )  # fmt: skip


@pytest.fixture
def prompts(tmp_path: Path, chat: ChatFormat) -> Path:
    rows = tiny.prompts(3, 8, thinking=0.0)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = tmp_path / "prompts.jsonl"
    freeze(_config(), {"prompts": tmp_path}, chat, 7, target)
    return target


def test_a_sound_verifier_tells_right_from_wrong(
    tmp_path: Path, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "capacity.json"
    with serving(tmp_path, "--verifiers", "answer") as service:
        capacity.trial(_config(), prompts, service.url, 7, None, record)
    [found] = json.loads(record.read_text()).values()
    assert (found["asked"], found["judged"], found["late"], found["faults"]) == (12, 12, 0, {})
    assert (found["right"], found["wrong"]) == (1.0, 0.0)
    assert 0 < found["p50"] <= found["p99"]
    assert "source sums, verifier answer: 12 of 12 responses judged" in capsys.readouterr().out


def test_a_service_that_gives_no_verdicts_is_refused_and_a_source_that_may_go_is_not(
    tmp_path: Path, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "capacity.json"
    gone = "http://127.0.0.1:1"
    with pytest.raises(RuntimeError, match=r"source sums: .* judged 0 of 12 .*unreachable 12"):
        capacity.trial(_config(), prompts, gone, 7, None, record, within=0.5)
    assert json.loads(record.read_text())["sums"]["faults"] == {"unreachable": 12}
    capacity.trial(_config(drop_above="50%"), prompts, gone, 7, None, record, within=0.5)
    assert "the run will drop it" in capsys.readouterr().out


def test_a_verifier_that_never_answers_takes_bounded_time_and_is_refused(
    tmp_path: Path, prompts: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It takes connections, and no more.
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RuntimeError, match="judged 0 of 12"):
            capacity.trial(_config(), prompts, url, 7, None, tmp_path / "c.json", within=0.5)
    assert json.loads((tmp_path / "c.json").read_text())["sums"]["late"] == 12


def test_a_verifier_that_the_service_does_not_have_is_named(tmp_path: Path, prompts: Path) -> None:
    with (
        serving(tmp_path, "--verifiers", "math") as service,
        pytest.raises((RuntimeError, ValueError), match="source sums"),
    ):
        capacity.trial(_config(), prompts, service.url, 7, None, tmp_path / "c.json", within=5)


def test_the_trial_is_of_the_first_steps_prompts(prompts: Path) -> None:
    rows = [json.loads(line) for line in prompts.read_text().splitlines()]
    asked = list(responses(_config(), rows, 7))
    assert [number for _, number in asked] == list(range(12))
    assert len({tuple(row["ids"]) for row, _ in asked}) == 4
    items = [question(row, number) for row, number in asked]
    assert [right for right, _ in items] == [True, False] * 6
    assert len({item.model_dump_json(exclude={"id"}) for _, item in items}) == 12


@pytest.mark.parametrize("gold", [3, ["a", 1], {"tests": []}])
def test_gold_that_is_no_answer_gives_wrong_responses_alone(gold: Any) -> None:
    row = {"verifier": "code", "gold": gold, "parameters": {"language": "c"}, "answer_tool": False}
    for number in range(4):
        right, item = question(row, number)
        assert not right
        assert item.answers is None
        assert "```c\n" in (item.response or "")


def _verdict(score: float | None, reason: str | None) -> Verdict:
    status = "failed" if score is None else "scored"
    return Verdict(id="1", verifier="answer", status=status, score=score, reason=reason)


_TRIED = st.builds(
    Tried, st.booleans(),
    st.one_of(
        st.builds(_verdict, st.sampled_from([0.0, 1.0]), st.none()),
        st.builds(_verdict, st.none(), st.sampled_from(["worker_lost", "timeout"])),
    ),
    st.floats(0.001, 60),
)  # fmt: skip


@given(st.lists(_TRIED, min_size=1, max_size=60))
def test_what_is_sent_is_judged_late_or_a_fault(every: list[Tried]) -> None:
    found = figures("answer", every)
    assert found.asked == found.judged + found.late + sum(found.faults.values())
    assert (found.p50 is None) == (found.judged == 0)
    refused = excess(_config(), {"sums": found})
    lost, known = sum(found.faults.values()), found.asked - found.late
    assert bool(refused) == (found.judged == 0 or lost > 0.2 * max(known, 10))


def _capacity(**more: Any) -> Capacity:
    told: dict[str, Any] = {
        "verifier": "answer", "asked": 20, "judged": 20, "late": 0, "faults": {}, "p50": 0.1,
        "p99": 0.2, "per_second": 10.0, "right": 1.0, "wrong": 0.0,
    }  # fmt: skip
    return Capacity(**told | more)


@pytest.mark.parametrize(
    ("found", "step", "said"),
    [
        ({}, None, None), ({}, 3.0, None), ({}, 1.0, "the trainer will wait"),
        ({"right": 0.0}, None, "nothing can be learned"), ({"right": None}, None, None),
        ({"right": 0.5, "wrong": 0.5}, None, "nothing can be learned"),
    ],
)  # fmt: skip
def test_what_is_odd_is_told(found: dict[str, Any], step: float | None, said: str | None) -> None:
    _, *odd = remarks({"sums": _capacity(**found)}, step)
    assert len(odd) == (said is not None)
    assert said is None or said in odd[0]
