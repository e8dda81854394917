from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from posttrain.data.chat import Rendered
from posttrain.data.generators import GENERATORS
from posttrain.data.mixture import Mixture, Part
from posttrain.objectives.config import DPOConfig
from posttrain.training import checkpoint, dpo, reference
from posttrain.training.dpo import Limits
from posttrain.training.engine import Engine, tensors
from posttrain.training.guards import StepsConfig
from posttrain.training.loop import update
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.policy import Policy
from posttrain.training.preference import Settings
from posttrain.training.process import single_process_group
from posttrain.training.reference import Ahead
from posttrain.training.sft import Start
from tests.training.conftest import World, read, write
from tests.training.kills import killed
from tests.training.test_completions import ADAMW, CONSTANT, some_documents

STEPS = StepsConfig.model_validate(
    {
        "steps": 8, "batch": 4, "optimizer": {"adamw": {"lr": 1e-3}}, "save_every": 3,
        "schedule": {"wsd": {"warmup": 1, "decay": 4}},
        "guards": {"drift": 1e-4, "moves_within": 3},
    }
)  # fmt: skip
REFRESHED = STEPS.model_copy(update={"refresh_every": 2})
NO_LIMITS = Limits(None, 0.0)


def made_pairs(folder: Path, rows: int = 24) -> Path:
    made = GENERATORS["tiny.pairs"]
    splits = made.make(5, made.parameters.model_validate({"rows": rows}))  # type: ignore[call-arg]
    return write(folder / "train.jsonl", splits["train"])


def aligned(
    start: Start, pairs: Path, steps: StepsConfig, root: Path, ahead: Ahead | None = None,
    limits: Limits = NO_LIMITS, report: Any = lambda *told: None,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    mixture = Mixture({"pairs": Part(share=1.0)}, "rows", "repeat", 4 * steps.steps, 4)
    return dpo.align(
        Policy.load(start.path, start.facts), {"pairs": pairs}, limits, DPOConfig(beta=0.1),
        Settings(steps, mixture, seed=3), ahead,
        backend="cpu", work=root / "work", output=root / "output", report=report,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def undisturbed(base: Start, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The checkpoint of a run with a reference that is refreshed."""
    root = tmp_path_factory.mktemp("undisturbed")
    _, facts = aligned(base, pairs, REFRESHED, root)
    return Start(root / "output", facts)


@pytest.fixture(scope="module")
def ahead(base: Start, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Ahead:
    """Log-probabilities computed ahead."""
    root = tmp_path_factory.mktemp("ahead")
    return computed(base, pairs, root)


def computed(start: Start, pairs: Path, root: Path) -> Ahead:
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    policy = Policy.load(start.path, start.facts)
    reference.compute(
        policy, NO_LIMITS.read({"pairs": pairs}, policy), 1,
        backend="cpu", work=root / "work", output=root / "output", report=lambda *told: None,
    )  # fmt: skip
    return Ahead(root / "output", reference.identity(start.facts, {"pairs": pairs}))


@pytest.mark.parametrize(("normalized", "nll"), [(False, 0.0), (True, 0.0), (False, 0.3)])
@pytest.mark.parametrize("pairs_a_row", [4, 2, 1])
def test_the_gradient_is_that_of_the_mean_loss_however_the_batch_is_cut(
    base: Start, pairs_a_row: int, normalized: bool, nll: float
) -> None:
    """Against autograd of the formula, with a plain model and without anything of the engine's."""
    config = DPOConfig(beta=0.7, length_normalized=normalized, label_smoothing=0.1, nll=nll)
    documents, known = some_documents(8), [-3.0, -9.0, -30.0, -2.0, -55.0, -60.0, -8.0, -20.0]
    plain = checkpoint.load_model(base.path, base.facts)
    wanted = plain_loss(plain, documents, known, config)
    wanted.backward()
    norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1e9)
    with single_process_group("cpu"):
        model = checkpoint.load_model(base.path, base.facts)
        engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 2, "cpu")
        size = 2 * pairs_a_row
        batch = [documents[at : at + size] for at in range(0, 8, size)]
        given = tensors(batch, {"reference": known})
        line, metrics = update(engine, given, lambda **kw: dpo.loss(**kw, config=config, pairs=4))
    assert line["loss"] == pytest.approx(wanted.item(), rel=1e-5)
    assert line["gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)
    assert metrics["chosen.length"] == [sum(each.mask) for each in documents[::2]]


def plain_loss(
    model: Any, documents: list[Rendered], known: list[float], config: DPOConfig
) -> torch.Tensor:
    rewards, means = [], []
    for document, before in zip(documents, known, strict=True):
        logits = model(torch.tensor([document.ids])).logits[0, 1:-1]
        found = -functional.cross_entropy(logits, torch.tensor(document.ids[2:]), reduction="sum")
        means.append(found / (len(document.ids) - 2))
        length = len(document.ids) - 2 if config.length_normalized else 1
        rewards.append(config.beta * (found - before) / length)
    margins = torch.stack(rewards[::2]) - torch.stack(rewards[1::2])
    smooth = config.label_smoothing
    right, wrong = functional.logsigmoid(margins), functional.logsigmoid(-margins)
    losses = -((1 - smooth) * right + smooth * wrong) - config.nll * torch.stack(means[::2])
    return losses.mean()


def test_it_learns_the_preference(base: Start, pairs: Path, tmp_path: Path) -> None:
    metrics, facts = aligned(base, pairs, STEPS, tmp_path)
    lines = read(tmp_path / "output/metrics.jsonl")
    assert lines[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-4)
    assert lines[-1]["loss"] < 0.6
    assert lines[-1]["accuracy"] == 1
    assert lines[-1]["chosen.log_ratio"] > lines[-1]["rejected.log_ratio"]
    assert metrics["margin"] > 0
    checkpoint.load_model(tmp_path / "output", facts)


def test_computed_ahead_or_live_it_is_the_same_run(
    base: Start, pairs: Path, ahead: Ahead, tmp_path: Path
) -> None:
    runs = [aligned(base, pairs, STEPS, tmp_path / name, given)
            for name, given in (("live", None), ("ahead", ahead))]  # fmt: skip
    live, early = (read(tmp_path / name / "output/metrics.jsonl") for name in ("live", "ahead"))
    for ours, theirs in zip(live, early, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)
    assert [facts["reference"] for _, facts in runs] == ["live", "ahead"]


def test_a_refreshed_reference_is_the_policy_as_it_was(undisturbed: Start) -> None:
    drifts = [line["drift"] for line in read(undisturbed.path / "metrics.jsonl")]
    assert max(drifts[::2]) < 1e-6
    assert min(drifts[3::2]) > 1e-4


def test_a_run_killed_dead_ends_bit_equal(
    base: Start, pairs: Path, undisturbed: Start, tmp_path: Path
) -> None:
    """kill -9 in step 5 of 8, in a process of its own; the state is of step 3."""
    killed(tmp_path, 5, lambda stop: aligned(base, pairs, REFRESHED, tmp_path, report=stop))
    resumed: list[int] = []
    _, facts = aligned(
        base, pairs, REFRESHED, tmp_path, report=lambda step, *_: resumed.append(step)
    )
    assert resumed == [4, 5, 6, 7, 8]
    assert facts == undisturbed.facts
    assert read(tmp_path / "output/metrics.jsonl") == read(undisturbed.path / "metrics.jsonl")


@pytest.mark.parametrize(
    ("part", "name", "told"),
    [
        ("policy", "weights_sha256", "another policy"),
        ("policy", "tokenizer_sha256", "another policy"),
        ("policy", "template_sha256", "another policy"),
        ("policy", "rope", "another policy"),
        ("data", "pairs", "another data"),
    ],
)
def test_a_reference_of_something_else_is_refused(
    base: Start, pairs: Path, ahead: Ahead, tmp_path: Path, part: str, name: str, told: str
) -> None:
    facts = dict(ahead.facts) | {part: dict(ahead.facts[part]) | {name: "0"}}
    with pytest.raises(ValueError, match=f"{told}: its {name}"):
        aligned(base, pairs, STEPS, tmp_path, Ahead(ahead.folder, facts))


def test_a_reference_that_lacks_a_row_or_counts_otherwise_is_refused(
    base: Start, pairs: Path, ahead: Ahead, tmp_path: Path
) -> None:
    lines = read(ahead.folder / "pairs.jsonl")
    write(tmp_path / "fewer/pairs.jsonl", lines[:-1])
    with pytest.raises(ValueError, match="lacks row 24"):
        aligned(base, pairs, STEPS, tmp_path, Ahead(tmp_path / "fewer", ahead.facts))
    lines[0]["tokens"] = [1, 1]
    write(tmp_path / "other/pairs.jsonl", lines)
    with pytest.raises(ValueError, match=r"row 1 has .1, 1. tokens there"):
        aligned(base, pairs, STEPS, tmp_path, Ahead(tmp_path / "other", ahead.facts))


def test_log_probabilities_that_are_not_the_policys_end_the_run(
    base: Start, pairs: Path, ahead: Ahead, tmp_path: Path
) -> None:
    """Right digests, wrong values: a kernel that computes with another RoPE, say."""
    lines = read(ahead.folder / "pairs.jsonl")
    shifted = [line | {"log_probs": [value - 1 for value in line["log_probs"]]} for line in lines]
    write(tmp_path / "off/pairs.jsonl", shifted)
    with pytest.raises(ValueError, match="nats per token before they may"):
        aligned(base, pairs, STEPS, tmp_path, Ahead(tmp_path / "off", ahead.facts))


def test_a_frozen_policy_ends_the_run(base: Start, pairs: Path, tmp_path: Path) -> None:
    still = OptimizerConfig.model_validate({"adamw": {"lr": 1e-12}})
    for steps, told in ((8, 3), (2, 2)):
        frozen = STEPS.model_copy(update={"optimizer": still, "steps": steps})
        with pytest.raises(ValueError, match=f"of the weights moved in {told} steps"):
            aligned(base, pairs, frozen, tmp_path / str(steps))


def test_a_length_beyond_the_context_is_refused(base: Start, pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="length 513 is beyond the checkpoint's context 512"):
        aligned(base, pairs, STEPS, tmp_path, limits=Limits(513, 0))


def test_pairs_left_out_are_counted(base: Start, world: World, tmp_path: Path) -> None:
    rows = read(made_pairs(tmp_path))
    rows[5]["rejected"] = rows[5]["chosen"]
    path = write(tmp_path / "faulty/train.jsonl", rows)
    with pytest.raises(ValueError, match="1 of 24 pairs"):
        aligned(base, path, STEPS, tmp_path)
    metrics, _ = aligned(base, path, STEPS, tmp_path, limits=Limits(None, 0.05))
    assert metrics["dropped.pairs.identical"] == 1


def test_a_reference_is_computed_in_pieces_that_survive(
    base: Start, pairs: Path, ahead: Ahead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_CHUNK", 10)
    found = computed(base, pairs, tmp_path)
    kept = sorted(each.name for each in (tmp_path / "work").iterdir())
    assert kept == ["pairs.0.json", "pairs.10.json", "pairs.20.json"]
    assert computed(base, pairs, tmp_path).facts == ahead.facts
    for ours, theirs in zip(
        read(found.folder / "pairs.jsonl"), read(ahead.folder / "pairs.jsonl"), strict=True
    ):
        assert ours["row"] == theirs["row"]
        assert ours["log_probs"] == pytest.approx(theirs["log_probs"], rel=1e-5)
