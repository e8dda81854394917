import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from posttrain.data import tiny
from posttrain.data.mixture import Mixture, Part
from posttrain.data.scored import read_sampled, read_scored
from posttrain.judging import completions
from posttrain.objectives.config import QRPOConfig
from posttrain.training import checkpoint, qrpo, reference, tracks
from posttrain.training.engine import Engine, tensors
from posttrain.training.guards import StepsConfig
from posttrain.training.loop import update
from posttrain.training.policy import Policy
from posttrain.training.preference import Settings
from posttrain.training.process import single_process_group
from posttrain.training.sft import Start
from posttrain.training.tracks import Track, Usable
from tests.training.conftest import read, write
from tests.training.test_completions import ADAMW, CONSTANT, some_documents

STEPS = StepsConfig.model_validate(
    {
        "steps": 8, "batch": 3, "optimizer": {"adamw": {"lr": 1e-3}}, "save_every": 3,
        "schedule": {"constant": {}}, "guards": {"drift": 1e-4, "moves_within": 3},
    }
)  # fmt: skip
USABLE = Usable(None, "extremes", 0.0)
PER_PROMPT = 4


@pytest.fixture(scope="module")
def policy(base: Start) -> Policy:
    return Policy.load(base.path, base.facts)


@pytest.fixture(scope="module")
def made(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of four completions each of six prompts: even digits score higher."""
    root = tmp_path_factory.mktemp("made")
    lines, verdicts = [], []
    for row, prompt in enumerate(tiny.prompts(3, 6, 1.0)):
        for sample in range(PER_PROMPT):
            text = f"It is {row}{sample}."
            ids = [*policy.chat.encode(text), policy.chat.stop_ids[0]]
            lines.append(completions.line(row, sample, prompt, ids, policy.chat.parse(ids)))
            verdicts.append(
                {"row": row, "sample": sample, "score": (0.2, 0.9, 0.2, 0.5)[sample], "fault": ""}
            )
    write(root / "generated" / completions.COMPLETIONS, lines)
    write(root / "scored" / completions.SCORES, verdicts)
    return root


def track(made: Path, policy: Policy, **changes: Any) -> Track:
    def artifact(path: Path, inputs: Mapping[str, str], facts: Mapping[str, Any]) -> Any:
        record = SimpleNamespace(inputs=inputs, facts=facts)
        return SimpleNamespace(path=path, record=record, address=f"run/{path.name}@1")

    weights = changes.get("weights", policy.facts["weights_sha256"])
    scored = {"completions": changes.get("completions", "run/generated@1")}
    computed = changes.get("computed")
    return Track(
        artifact(changes.get("generated", made / "generated"), {}, {"policy": weights}),
        artifact(changes.get("scored", made / "scored"), scored, {}),
        artifact(computed, {}, changes["facts"]) if computed else None,
    )


def with_scores(made: Path, root: Path, **scores: float | None) -> Path:
    """The scores with changes: `s3=None` is that of line 3."""
    lines = read(made / "scored" / completions.SCORES)
    for name, score in scores.items():
        lines[int(name[1:])]["score"] = score
    write(root / "scored" / completions.SCORES, lines)
    return root / "scored"


def test_best_and_worst_are_ranked_among_all(made: Path, policy: Policy) -> None:
    found = read_scored(made / "generated", made / "scored", policy.chat, 200,
                        select="extremes", drop_at_most=0)  # fmt: skip
    assert found.rows == list(range(6))
    assert {each.samples for each in found.groups} == {(1, 0)}  # type: ignore[attr-defined]
    assert qrpo.ranked(found) == [[1.0, 0.5]] * 6
    all_of_them = read_scored(made / "generated", made / "scored", policy.chat, 200,
                              select="all", drop_at_most=0)  # fmt: skip
    assert qrpo.ranked(all_of_them) == [[0.5, 1.0, 0.5, 0.75]] * 6


def test_what_is_unscored_is_left_out_within_a_bound(
    made: Path, policy: Policy, tmp_path: Path
) -> None:
    scores = with_scores(made, tmp_path, s1=None)
    with pytest.raises(ValueError, match=r"1 of 24 completions .*\(unscored 1\)"):
        read_scored(made / "generated", scores, policy.chat, 200, select="all", drop_at_most=0)
    found = read_scored(
        made / "generated", scores, policy.chat, 200, select="extremes", drop_at_most=0.05
    )
    assert found.dropped == {"unscored": 1}
    assert found.groups[0].samples == (3, 0)  # type: ignore[attr-defined]
    assert qrpo.ranked(found)[0] == [1.0, pytest.approx(2 / 3)]


def test_prompts_whose_completions_score_alike_have_no_best(
    made: Path, policy: Policy, tmp_path: Path
) -> None:
    alike = {f"s{index}": 0.5 for index in range(PER_PROMPT)}
    scores = with_scores(made, tmp_path, **alike)
    found = read_scored(made / "generated", scores, policy.chat, 200,
                        select="extremes", drop_at_most=0)  # fmt: skip
    assert found.rows == [1, 2, 3, 4, 5]
    assert found.dropped == {"alike": 1}
    everywhere = with_scores(made, tmp_path, **{f"s{index}": 0.5 for index in range(24)})
    with pytest.raises(ValueError, match="no prompt has two completions"):
        read_scored(made / "generated", everywhere, policy.chat, 200,
                    select="extremes", drop_at_most=0)  # fmt: skip


@pytest.mark.parametrize("size", [6, 2, 1])
def test_the_gradient_is_that_of_the_mean_loss_however_the_batch_is_cut(
    base: Start, size: int
) -> None:
    """Against autograd of the formula, with a plain model and without anything of the engine's."""
    documents, known = some_documents(6), [-3.0, -90.0, -30.0, -20.0, -55.0, -60.0]
    quantile, config = [1.0, 0.25, 0.5, 1.0, 0.75, 0.25], QRPOConfig(beta=5.0)
    plain, losses = checkpoint.load_model(base.path, base.facts), []
    for document, before, rank in zip(documents, known, quantile, strict=True):
        logits = plain(torch.tensor([document.ids])).logits[0, 1:-1]
        found = -functional.cross_entropy(logits, torch.tensor(document.ids[2:]), reduction="sum")
        beta = torch.tensor(min(5.0 / (len(document.ids) - 2), 0.1), dtype=torch.float64)
        target = rank - beta * torch.log(beta * (torch.exp(1 / beta) - 1))
        losses.append((target - beta * (found - before)) ** 2)
    wanted = torch.stack(losses).mean()
    wanted.backward()
    norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1e9)
    with single_process_group("cpu"):
        model = checkpoint.load_model(base.path, base.facts)
        engine = Engine(model, base.path / "model", ADAMW, CONSTANT, 2, "cpu")
        batch = tensors(
            [documents[at : at + size] for at in range(0, 6, size)],
            {"reference": known, "quantile": quantile},
        )
        line, _ = update(engine, batch, lambda **kw: qrpo.loss(**kw, config=config, completions=6))
    assert line["loss"] == pytest.approx(wanted.item(), rel=1e-5)
    assert line["gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)


def aligned(base: Start, found: Track, root: Path) -> dict[str, float]:
    for name in ("work", "output"):
        (root / name).mkdir(parents=True)
    policy = Policy.load(base.path, base.facts)
    groups, known = tracks.read({"standard": found}, policy, USABLE)
    mixture = Mixture({"standard": Part(share=1.0)}, "rows", "repeat", 24, 3)
    metrics, _ = qrpo.align(
        policy, groups, QRPOConfig(beta=1.0), Settings(STEPS, mixture, seed=3), known,
        backend="cpu", work=root / "work", output=root / "output", report=lambda *told: None,
    )  # fmt: skip
    return metrics


def test_it_moves_towards_the_target_and_a_reference_ahead_changes_nothing(
    base: Start, policy: Policy, made: Path, tmp_path: Path
) -> None:
    metrics = aligned(base, track(made, policy), tmp_path / "live")
    lines = read(tmp_path / "live/output/metrics.jsonl")
    assert lines[0]["reward"] == pytest.approx(0, abs=1e-4)
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"]
    assert metrics["log_ratio"] < 0  # The worst lies below log Z, the best above by less.
    ahead, facts = computed(base, made, tmp_path)
    given = track(made, policy, computed=ahead, facts=facts)
    assert aligned(base, given, tmp_path / "ahead") == pytest.approx(metrics, rel=1e-2, abs=1e-4)
    other = json.loads(json.dumps(facts))
    other["data"]["completions"] = "0"
    with pytest.raises(ValueError, match="for another data"):
        aligned(base, track(made, policy, computed=ahead, facts=other), tmp_path / "other")


def computed(base: Start, made: Path, root: Path) -> tuple[Path, dict[str, Any]]:
    policy, generated = Policy.load(base.path, base.facts), made / "generated"
    for name in ("computing", "computed"):
        (root / name).mkdir()
    reference.compute(
        policy, {tracks.NAME: read_sampled(generated, policy.chat)}, 1, backend="cpu",
        work=root / "computing", output=root / "computed", report=lambda *told: None,
    )  # fmt: skip
    files = {tracks.NAME: generated / completions.COMPLETIONS}
    return root / "computed", reference.identity(base.facts, files)


def test_completions_of_other_weights_or_scores_of_other_completions_are_refused(
    policy: Policy, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="the reference must make them"):
        tracks.read({"a": track(made, policy, weights="0" * 64)}, policy, USABLE)
    with pytest.raises(ValueError, match="scored other completions"):
        tracks.read({"a": track(made, policy, completions="run/generated@2")}, policy, USABLE)
    lines = read(made / "scored" / completions.SCORES)
    write(tmp_path / "scored" / completions.SCORES, lines[:-1])
    with pytest.raises(ValueError, match="are of other completions"):
        tracks.read({"a": track(made, policy, scored=tmp_path / "scored")}, policy, USABLE)
