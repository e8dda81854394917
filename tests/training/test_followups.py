from pathlib import Path
from typing import Any

import pytest
import torch

from posttrain.data.chat import ChatFormat
from posttrain.data.mixture import Mixture, Part
from posttrain.objectives.config import FollowUpConfig
from posttrain.stages.followups import Config
from posttrain.training import checkpoint, followups, hindsight
from posttrain.training.engine import Engine, tensors
from posttrain.training.followups import Settings
from posttrain.training.guards import UpdatesConfig
from posttrain.training.hindsight import FollowedUp, Usable
from posttrain.training.loop import update
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.policy import Policy
from posttrain.training.process import single_process_group
from posttrain.training.sft import Start
from tests.judging.test_stages import artifact, run
from tests.training.conftest import World, read, write
from tests.training.kills import killed
from tests.training.test_completions import ADAMW, CONSTANT

STEPS = UpdatesConfig.model_validate(
    {
        "steps": 6, "batch": 4, "optimizer": {"adamw": {"lr": 1e-3}}, "save_every": 2,
        "schedule": {"constant": {}},
    }
)  # fmt: skip
USABLE = Usable(" {follow_up}", 400, 1, 0.0)
TOO_LONG = "go on " * 200


def said(*turns: str) -> dict[str, Any]:
    """A conversation, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]
    return {"messages": messages, "tools": [], "deliberation": False}


@pytest.fixture(scope="module")
def chat(world: World) -> ChatFormat:
    return ChatFormat.from_tokenizer(world.tokenizer)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations of one follow-up, and one with two."""
    rows = [
        said(f"what is {n} and {n + 1}", f"it is {2 * n + 1} i say", "shorter please")
        for n in range(9)
    ]
    rows.append(said("tell me", "so it is", "more", "and so on it goes", "thanks"))
    return write(tmp_path_factory.mktemp("conversations") / "train.jsonl", rows)


def distilled(
    start: Start, data: Path, root: Path, report: Any = lambda *told: None, **changes: Any
) -> tuple[dict[str, float], dict[str, Any]]:
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    policy = Policy.load(start.path, start.facts)
    updates = STEPS.model_copy(update=changes)
    mixture = Mixture({"said": Part(share=1.0)}, "rows", "repeat", 4 * updates.steps, 4)
    return followups.distil(
        policy, {"said": hindsight.read(data, policy.chat, USABLE)},
        Settings(updates, FollowUpConfig(ignore_first=1), mixture, 3),
        backend="cpu", work=root / "work", output=root / "output", report=report,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(base: Start, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    root = tmp_path_factory.mktemp("undisturbed")
    _, facts = distilled(base, data, root)
    return Start(root / "output", facts)


def test_every_response_that_is_followed_up_is_one_with_its_prompt(
    chat: ChatFormat, data: Path
) -> None:
    found = hindsight.read(data, chat, USABLE)
    assert (list(found.rows), found.dropped) == ([*range(10), 9], {})
    for each in found.groups:
        assert isinstance(each, FollowedUp)
        plain, told = (
            [t for t, own in zip(side.ids, side.mask, strict=True) if own] for side in each.sides
        )
        assert plain == told
        assert plain[-1] in chat.stop_ids, "the end of the turn has a signal too"
        assert len(each.told.ids) > len(each.plain.ids)
    text = chat.tokenizer.decode(found.groups[9].sides[1].ids)
    assert "tell me more" in text, "the follow-up stands after the prompt"
    text = chat.tokenizer.decode(found.groups[10].sides[1].ids)
    assert "more thanks" in text


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (said("tell me", "so it is"), "unanswered"),
        (said("tell me"), "unanswered"),
        (said("tell me", "so it is", "  \n"), "blank"),
        (said("tell me", "so it is", "say <|assistant_end|>"), "unrenderable"),
        (said("tell me", "", "more"), "brief"),
        (said("tell me", "so it is", TOO_LONG), "too_long"),
    ],
)
def test_a_response_without_a_usable_follow_up_is_counted_or_refused(
    chat: ChatFormat, data: Path, tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    path = write(tmp_path / "train.jsonl", [*read(data), row])
    with pytest.raises(ValueError, match=r"1 of 12 responses .* first row 11: "):
        hindsight.read(path, chat, USABLE)
    some = Usable(USABLE.template, USABLE.length, USABLE.ignored, 0.1)
    found = hindsight.read(path, chat, some)
    assert (len(found.groups), found.dropped) == (11, {reason: 1})
    with pytest.raises(ValueError, match="1 of 1 responses"):
        hindsight.read(write(tmp_path / "train.jsonl", [row]), chat, some)


def test_the_gradient_is_that_of_the_mean_loss_however_the_batch_is_cut(
    base: Start, chat: ChatFormat, data: Path
) -> None:
    """Against autograd of the formula with a plain model: one document a pass, in both prompts."""
    found = hindsight.read(data, chat, USABLE)
    batch: list[Any] = list(found.groups[7:])
    plain = checkpoint.load_model(base.path, base.facts)
    losses = []
    for each in batch:
        ours, theirs = (_log_probs(plain, side)[1:] for side in each.sides)
        gain = (theirs - ours).detach()
        losses.append(-(gain * ours).sum() / len(ours))
    wanted = torch.stack(losses).mean()
    wanted.backward()
    norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1e9)
    for cut in (1, 4):
        with single_process_group("cpu"):
            model = checkpoint.load_model(base.path, base.facts)
            engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 2, "cpu")
            told = followups.token_log_probs(engine, [each.told for each in batch])
            packed = [
                [each.plain for each in batch[start : start + cut]] for start in range(0, 4, cut)
            ]
            hints = [told[start : start + cut] for start in range(0, 4, cut)]
            line, metrics = update(
                engine, tensors(packed),
                lambda hints=hints, **given: followups.loss(
                    **given, hindsight=hints, config=FollowUpConfig(ignore_first=1), completions=4
                ),
            )  # fmt: skip
        assert line["loss"] == pytest.approx(wanted.item(), rel=1e-4)
        assert line["gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)
        assert metrics["length"] == [sum(each.plain.mask) - 1 for each in batch]


def _log_probs(model: Any, document: Any) -> torch.Tensor:
    mask = torch.tensor(document.mask[1:]).bool()
    logits = model(torch.tensor([document.ids])).logits[0, :-1][mask].log_softmax(-1)
    found: torch.Tensor = logits.gather(-1, torch.tensor(document.ids[1:])[mask][:, None])[:, 0]
    return found


def test_the_record_tells_of_every_step(base: Start, undisturbed: Start) -> None:
    lines = read(undisturbed.path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    for line in lines:
        assert line["gain_size"] >= abs(line["gain"]) > 0
        assert line["targets"] > 0
    assert undisturbed.facts["weights_sha256"] != base.facts["weights_sha256"]
    checkpoint.load_model(undisturbed.path, undisturbed.facts)


def test_a_run_killed_dead_ends_bit_equal(
    base: Start, data: Path, undisturbed: Start, tmp_path: Path
) -> None:
    """kill -9 after step 5 of 6; the state is of step 4."""
    killed(tmp_path, 5, lambda stop: distilled(base, data, tmp_path, stop))
    resumed: list[int] = []
    _, facts = distilled(base, data, tmp_path, lambda step, *_: resumed.append(step))
    assert resumed == [5, 6]
    assert facts == undisturbed.facts
    assert read(tmp_path / "output/metrics.jsonl") == read(undisturbed.path / "metrics.jsonl")


def test_a_frozen_policy_ends_the_run(base: Start, data: Path, tmp_path: Path) -> None:
    still = OptimizerConfig.model_validate({"adamw": {"lr": 1e-12}})
    with pytest.raises(ValueError, match="of the weights moved in 2 steps"):
        distilled(base, data, tmp_path, steps=2, optimizer=still)


def test_the_stage_trains_and_counts_what_it_leaves_out(
    base: Start, data: Path, tmp_path: Path
) -> None:
    write(tmp_path / "chats" / "train.jsonl", [*read(data), said("tell me", "so it is")])
    asked = {"from": "sft", "data": "chats", "drop_at_most": 0.1, "template": " {follow_up}"}
    config = Config.model_validate(asked | STEPS.model_dump(mode="json", exclude_none=True))
    inputs = {"from": artifact(base.path, base.facts), "data.chats": artifact(tmp_path / "chats")}
    found, metrics = run("followups", config, inputs, tmp_path)
    assert metrics["dropped.chats.unanswered"] == 1
    checkpoint.load_model(found.path, found.record.facts)
    with pytest.raises(ValueError, match="length 513 is beyond the checkpoint's context 512"):
        run("followups", config.model_copy(update={"length": 513}), inputs, tmp_path / "long")


def test_a_template_without_its_slot_is_refused() -> None:
    asked = {"from": "sft", "data": "chats", **STEPS.model_dump(mode="json", exclude_none=True)}
    assert Config.model_validate(asked).inputs() == {"from": "sft", "data.chats": "chats"}
    with pytest.raises(ValueError, match=r"needs \{follow_up\} once"):
        Config.model_validate(asked | {"template": "In hindsight:"})
