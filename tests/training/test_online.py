from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion
from posttrain.objectives.config import DPOConfig
from posttrain.training import checkpoint, online
from posttrain.training.guards import OnlineConfig, StepsConfig
from posttrain.training.policy import Policy
from posttrain.training.rivals import check, figures, rivals
from posttrain.training.sft import Start
from tests.training.conftest import read, write
from tests.training.kills import killed

STEPS = StepsConfig.model_validate(
    {
        "steps": 6, "batch": 4, "optimizer": {"adamw": {"lr": 2e-3}}, "save_every": 3,
        "schedule": {"constant": {}}, "guards": {"drift": 1e-4, "moves_within": 3},
        "refresh_every": 2,
    }
)  # fmt: skip
ONLINE = OnlineConfig.model_validate(
    {
        "judge": {"verifier": "judge"}, "group": 4, "unscored": "30%",
        "lengths": {"prompt": 200, "response": 8},
    }
)  # fmt: skip


class Brief:
    """Prefers short content; what it is told to it fails on, and it counts what it is asked."""

    def __init__(self, failing: Sequence[int] = (), score: float | None = None) -> None:
        self.asked, self._failing, self._score = 0, failing, score

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        self.asked += 1
        return [
            Opinion(None, fault="failed (timeout): slow")
            if index in self._failing
            else Opinion(self._score if self._score is not None else -len(turn.content or "") / 99)
            for index, turn in enumerate(turns)
        ]


def aligned(
    start: Start, root: Path, judge: Any, report: Any = lambda *told: None, **changes: Any
) -> tuple[dict[str, float], dict[str, Any]]:
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    prompts = write(root / "prompts.jsonl", tiny.prompts(3, 10, 0.0))
    return online.align(
        Policy.load(start.path, start.facts), start.path, prompts, DPOConfig(beta=0.1),
        STEPS.model_copy(update=changes), ONLINE, judge, 3,
        backend="cpu", work=root / "work", output=root / "output", report=report,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(base: Start, tmp_path_factory: pytest.TempPathFactory) -> Start:
    root = tmp_path_factory.mktemp("undisturbed")
    _, facts = aligned(base, root, Brief(failing=[0, 5]))
    return Start(root / "output", facts)


SCORES = st.lists(st.none() | st.integers(0, 3), min_size=12, max_size=12)


@given(scores=SCORES)
def test_a_pair_is_of_scored_responses_to_one_prompt_and_the_better_is_better(
    scores: list[int | None],
) -> None:
    opinions = [Opinion(score) for score in scores]
    found = rivals([7, 8, 9], 4, opinions)
    for each in found:
        own = scores[4 * (each.row - 7) : 4 * (each.row - 6)]
        there = [score for score in own if score is not None]
        assert {each.best // 4, each.worst // 4} == {each.row - 7}
        assert (scores[each.best], scores[each.worst]) == (max(there), min(there))
        assert max(there) > min(there)
    told = figures([7, 8, 9], opinions, found)
    assert told["unscored"] == pytest.approx(scores.count(None) / 12)
    assert told["alike"] == pytest.approx(1 - len(found) / 3)


def test_too_many_without_a_score_end_the_run() -> None:
    opinions = [Opinion(None, fault="failed (timeout): slow"), *[Opinion(1.0)] * 3]
    check(opinions, 0.25, 1)
    with pytest.raises(RuntimeError, match=r"step 4: 1 of 4 responses .*timeout"):
        check(opinions, 0.24, 4)


def test_the_record_tells_of_every_pair(base: Start, undisturbed: Start) -> None:
    lines = read(undisturbed.path / "metrics.jsonl")
    assert [line["unscored"] for line in lines] == [pytest.approx(2 / 16)] * 6
    assert lines[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert lines[1]["kl"] != pytest.approx(0, abs=1e-5)
    assert lines[2]["kl"] == pytest.approx(0, abs=1e-5)  # The reference is the policy again.
    pairs = read(undisturbed.path / "pairs.jsonl")
    assert len(pairs) == round(sum(4 * (1 - line["alike"]) for line in lines))
    for pair in pairs:
        assert pair["chosen"]["score"] > pair["rejected"]["score"]
        assert pair["prompt"][-1]["role"] == "user"
    checkpoint.load_model(undisturbed.path, undisturbed.facts)
    assert undisturbed.facts["weights_sha256"] != base.facts["weights_sha256"]


def test_a_run_killed_dead_ends_bit_equal_and_asks_nothing_twice(
    base: Start, undisturbed: Start, tmp_path: Path
) -> None:
    """kill -9 in step 5 of 6, in a process of its own; the state is of step 3."""
    killed(tmp_path, 5, lambda stop: aligned(base, tmp_path, Brief(failing=[0, 5]), stop))
    judge = Brief(failing=[0, 5])
    resumed: list[int] = []
    _, facts = aligned(base, tmp_path, judge, lambda step, *_: resumed.append(step))
    assert (resumed, judge.asked) == ([4, 5, 6], 1)
    assert facts == undisturbed.facts
    for name in ("metrics.jsonl", "pairs.jsonl"):
        assert read(tmp_path / "output" / name) == read(undisturbed.path / name)


def test_a_judge_that_fails_ends_the_run_and_leaves_nothing_of_the_step(
    base: Start, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"step 1: 5 of 16 responses .*at most 30%"):
        aligned(base, tmp_path, Brief(failing=range(5)))
    assert not list((tmp_path / "work").glob("rollouts.*"))


def test_without_a_pair_nothing_is_learned(base: Start, tmp_path: Path) -> None:
    metrics, facts = aligned(base, tmp_path, Brief(score=0.5), steps=3)
    assert facts["weights_sha256"] == base.facts["weights_sha256"]
    assert (metrics["alike"], metrics["loss"]) == (1.0, 0.0)
    assert [line["rate"] for line in read(tmp_path / "output/metrics.jsonl")] == [1.0] * 3
