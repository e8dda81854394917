import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from posttrain.charter import read
from posttrain.data import manners
from posttrain.data.chat import ChatFormat
from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion, ServiceJudge, opinion
from posttrain.objectives.sdpo import distil
from posttrain.sdpo import training
from posttrain.sdpo.config import SdpoConfig
from posttrain.sdpo.samples import Span
from posttrain.sdpo.teacher import Teacher
from posttrain.training import checkpoint
from posttrain.training.engine import Engine, tensors
from posttrain.training.process import single_process_group
from posttrain.training.prompts import read_prompts
from posttrain.training.sft import Start
from rewards.verifiers import rules
from tests.training.conftest import World, write
from tests.training.conftest import read as rows_of
from tests.training.kills import killed

CHARTER = read(Path("recipes/charters/tiny.md").read_text())
SETTINGS: dict[str, Any] = {
    "data": "requests",
    "judge": {"verifier": "rules", "charter": "tiny", "articles": ["closing", "certainty"]},
    "reprompt": {
        "length": 160, "template": "{prompt}{demonstration}{feedback}",
        "feedback_template": " {feedback}",
    },
    "teacher": {"regularization": "ema", "rate": 0.2},
    "objective": {"top_k": 16, "alpha": 0.5},
    "steps": 5, "prompts_per_step": 4, "save_every": 2,
    "lengths": {"prompt": 120, "response": 6},
    "optimizer": {"adamw": {"lr": 1e-2}}, "limits": {"untaught": 0.5},
}  # fmt: skip


class RuleJudge(ServiceJudge):
    """The rule judge without a service, which fails when it is asked for the `fails`th time."""

    def __init__(self, config: SdpoConfig, fails: int | None = None) -> None:
        super().__init__(config.judge, CHARTER, "http://127.0.0.1:1", 1.0)
        self.asked, self._fails = 0, fails

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        self.asked += 1
        if self.asked == self._fails:
            return [Opinion(None, fault="failed (unreachable): nobody answers")] * len(rows)
        return [
            opinion(rules.verify(self._item(str(index), row, turn)))
            for index, (row, turn) in enumerate(zip(rows, turns, strict=True))
        ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("requests")
    return write(folder / "train.jsonl", manners.requests(1, 12, "usual"))


def settings(**changes: Any) -> SdpoConfig:
    return SdpoConfig.model_validate({**SETTINGS, **changes})


def train(
    base: Start, data: Path, root: Path, config: SdpoConfig, judge: RuleJudge | None = None,
    report: Any = lambda *told: None,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    asked = training.Asked(judge or RuleJudge(config), {"charter_sha256": CHARTER.sha256})
    return training.train(
        base, data, data if config.anchor else None, config, asked, 3, backend="cpu",
        work=root / "work", output=root / "output", report=report,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(
    base: Start, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("undisturbed")
    _, facts = train(base, data, root, settings())
    return root / "output", facts


def test_an_outage_of_the_judge_stops_the_run_and_it_goes_on_bit_equal(
    base: Start, data: Path, tmp_path: Path, undisturbed: tuple[Path, dict[str, Any]]
) -> None:
    config = settings()
    failing = RuleJudge(config, fails=4)
    with pytest.raises(RuntimeError, match=r"step 4: 4 of 4 responses .* nobody answers"):
        train(base, data, tmp_path, config, failing)
    assert sorted(path.name for path in (tmp_path / "work" / "samples").iterdir()) == [
        "0.json", "1.json", "2.json",
    ]  # fmt: skip
    sound = RuleJudge(config)
    _, facts = train(base, data, tmp_path, config, sound)
    assert sound.asked == 2, "what was judged is not judged again"
    assert facts["weights_sha256"] == undisturbed[1]["weights_sha256"]
    for name in ("spans.jsonl", "metrics.jsonl"):
        assert (tmp_path / "output" / name).read_bytes() == (undisturbed[0] / name).read_bytes()


def test_a_run_killed_dead_ends_bit_equal_and_asks_nothing_twice(
    base: Start, data: Path, tmp_path: Path, undisturbed: tuple[Path, dict[str, Any]]
) -> None:
    """kill -9 after step 3 of 5, in a process of its own; the state is of step 2."""
    config = settings()
    killed(tmp_path, 3, lambda stop: train(base, data, tmp_path, config, None, stop))
    judge, resumed = RuleJudge(config), list[int]()
    _, facts = train(base, data, tmp_path, config, judge, lambda step, *_: resumed.append(step))
    assert (resumed, judge.asked) == ([3, 4, 5], 2)
    assert facts == undisturbed[1]
    for name in ("spans.jsonl", "metrics.jsonl"):
        assert (tmp_path / "output" / name).read_bytes() == (undisturbed[0] / name).read_bytes()


def test_every_response_is_archived_with_its_origin(
    undisturbed: tuple[Path, dict[str, Any]],
) -> None:
    lines = rows_of(undisturbed[0] / "spans.jsonl")
    assert len(lines) == 20
    assert {line["charter_sha256"] for line in lines} == {CHARTER.sha256}
    taught = [line for line in lines if line["outcome"] == "taught"]
    assert taught
    for line in taught:
        assert line["article"] in ("closing", "certainty")
        assert line["told"].endswith(manners.ADVICE[line["article"]])
        assert len(line["prompt_sha256"]) == 64


def test_metrics_tell_outcomes_and_coverage(undisturbed: tuple[Path, dict[str, Any]]) -> None:
    lines = rows_of(undisturbed[0] / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    for line in lines:
        assert line["taught"] + line["content"] == pytest.approx(1)
        assert line.get("article.closing", 0) + line.get("article.certainty", 0) == pytest.approx(
            4 * line["taught"]
        )
    assert undisturbed[1]["branch"] == "jsd"


def test_responses_that_are_good_train_nothing(base: Start, data: Path, tmp_path: Path) -> None:
    class Content(RuleJudge):
        def opinions(self, rows: Any, turns: Any) -> list[Opinion]:
            return [Opinion(1.0)] * len(rows)

    config = settings(steps=2)
    metrics, facts = train(base, data, tmp_path, config, Content(config))
    assert facts["weights_sha256"] == base.facts["weights_sha256"]
    assert (metrics["taught"], metrics["loss"]) == (0.0, 0.0)


def test_anchors_are_trained_on_and_not_judged(base: Start, data: Path, tmp_path: Path) -> None:
    """Where the teacher is the student itself and reads the same, there is nothing to learn."""

    class Content(RuleJudge):
        def opinions(self, rows: Any, turns: Any) -> list[Opinion]:
            assert len(rows) == 4
            return [Opinion(1.0)] * len(rows)

    anchor = {"data": "requests", "prompts_per_step": 2}
    config = settings(steps=2, anchor=anchor, teacher={"regularization": "frozen"})
    metrics, _ = train(base, data, tmp_path, config, Content(config))
    lines = rows_of(tmp_path / "output" / "spans.jsonl")
    assert [line["outcome"] for line in lines] == [*["content"] * 4, *["anchored"] * 2] * 2
    assert metrics["loss"] == pytest.approx(0, abs=1e-5)
    assert rows_of(tmp_path / "output" / "metrics.jsonl")[0]["targets"] > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"teacher": {"regularization": "frozen"}, "objective": {"mode": "full", "alpha": 0}},
        {"teacher": {"regularization": "trust_region", "rate": 0.3}},
        {"objective": {"mode": "sampled", "alpha": 1, "temperature": 0.7}, "group": 2},
    ],
)
def test_teachers_and_modes_train(
    base: Start, data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    metrics, facts = train(base, data, tmp_path, settings(steps=2, **changes))
    assert facts["weights_sha256"] != base.facts["weights_sha256"]
    assert torch.isfinite(torch.tensor(metrics["loss"]))


def test_later_updates_of_a_step_are_weighted_by_importance(
    base: Start, data: Path, tmp_path: Path
) -> None:
    train(base, data, tmp_path, settings(steps=2, updates=2))
    weights = [line["weight"] for line in rows_of(tmp_path / "output" / "metrics.jsonl")]
    assert len(weights) == 4
    assert weights[::2] == pytest.approx([1.0, 1.0], abs=1e-4), "the policy is the one that sampled"
    assert abs(weights[3] - 1) > 1e-4, "the first update's rate is 0, the third one's is not"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"objective": {"top_k": 100_000}}, "objective.top_k is 100000, the vocabulary"),
        ({"lengths": {"prompt": 5, "response": 6}}, "row 1 of train.jsonl has"),
        ({"lengths": {"prompt": 120, "response": 400}}, "may have 560 tokens, the context 512"),
        ({"prompts_per_step": 13}, "12 prompts are fewer than prompts_per_step = 13"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(
    base: Start, data: Path, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        train(base, data, tmp_path, settings(**changes))
    assert not (tmp_path / "work" / "samples").exists()


def _spans(chat: ChatFormat, data: Path) -> list[Span]:
    prompts = read_prompts(data, chat, 200)
    found = []
    for index, prompt in enumerate(prompts[:5]):
        response = [*range(30, 33 + index), chat.stop_ids[0]]
        ids = chat.render(prompt, add_generation_prompt=True).ids  # type: ignore[arg-type]
        longer = [*ids[:-1], *range(60, 70), ids[-1]]
        sides = (
            training.samples.Rendered(each + response, [0] * len(each) + [1] * len(response))
            for each in (ids, longer)
        )
        found.append(Span(*sides, old=None))
    return found


def test_the_loss_is_the_mean_over_all_targets_however_they_are_packed(
    world: World, base: Start, data: Path
) -> None:
    """Against logits of each document apart: teacher and student read the response's targets."""
    chat = ChatFormat.from_tokenizer(world.tokenizer)
    spans, config = _spans(chat, data), settings()
    plain = checkpoint.load_model(base.path, base.facts).eval()

    def logits(side: Any) -> torch.Tensor:
        mask = torch.tensor(side.mask[1:]).bool()
        found: torch.Tensor = plain(torch.tensor([side.ids])).logits[0, :-1][mask]
        return found

    with torch.no_grad():
        ours = torch.cat([logits(each.student) for each in spans])
        theirs = torch.cat([logits(each.teacher) for each in spans])
    sampled = torch.cat([training._sampled([each]) for each in spans])
    every = torch.ones(len(sampled), dtype=torch.bool)
    wanted = distil(ours, theirs, sampled, every, config.objective).mean()
    for cut in (1, 2, 5):
        packed = [spans[start : start + cut] for start in range(0, 5, cut)]
        assert _loss(base, config, packed) == pytest.approx(float(wanted), rel=1e-4)


def _loss(base: Start, config: SdpoConfig, packed: Sequence[Sequence[Span]]) -> float:
    """The loss of one batch of rows in the engine."""
    student, teacher = (checkpoint.load_model(base.path, base.facts) for _ in range(2))
    batch = tensors([[each.student for each in row] for row in packed], with_logits=True)
    with single_process_group("cpu"):
        engine = Engine(student, base.path / "model", config.optimizer, config.schedule, 2, "cpu")
        run = training.Run(engine, Teacher(teacher, config.teacher, None), cast(Any, None), config)
        with engine.train_mode():
            return sum(engine.train_batch(batch, partial(run._loss, packed))["loss"])


def test_rows_that_are_no_prompts_are_refused(world: World, tmp_path: Path) -> None:
    chat = ChatFormat.from_tokenizer(world.tokenizer)
    for row in ({"messages": []}, {"messages": [{"role": "assistant", "content": "x"}]}, {}):
        path = write(tmp_path / "train.jsonl", [row])
        with pytest.raises(ValueError, match=r"row 1 of train.jsonl is no prompt"):
            read_prompts(path, chat, 100)


def test_a_file_without_prompts_is_refused(world: World, tmp_path: Path) -> None:
    """An epoch of nothing would be drawn from for ever."""
    chat = ChatFormat.from_tokenizer(world.tokenizer)
    with pytest.raises(ValueError, match="has no prompts"):
        read_prompts(write(tmp_path / "train.jsonl", []), chat, 100)
