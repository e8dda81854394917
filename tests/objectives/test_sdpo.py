from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.objectives import sdpo
from posttrain.objectives.config import SDPOConfig
from tests.objectives import oracle
from tests.objectives.draws import SEEDS, gradient, log_probs, mask, normal

VOCABULARY = 7
SETTINGS = [
    {"mode": "full", "alpha": 0.0},
    {"mode": "full", "alpha": 1.0},
    {"mode": "full", "alpha": 0.3},
    {"mode": "top_k", "alpha": 0.0, "top_k": 3},
    {"mode": "top_k", "alpha": 1.0, "top_k": 3},
    {"mode": "top_k", "alpha": 0.5, "top_k": 2, "add_tail": False},
    {"mode": "sampled", "alpha": 1.0},
]


class Batch:
    """Two rows of up to four tokens."""

    def __init__(self, seed: int, dtype: torch.dtype = torch.float64) -> None:
        self.student, self.teacher = normal(seed, 2, 2, 4, VOCABULARY).to(dtype)
        generator = torch.Generator().manual_seed(seed)
        self.sampled = torch.randint(VOCABULARY, (2, 4), generator=generator)
        self.mask = mask(seed, 2, 4)
        self.old = log_probs(seed, 2, 4).to(dtype)

    def loss(self, config: SDPOConfig, student: torch.Tensor | None = None) -> torch.Tensor:
        student = self.student if student is None else student
        return sdpo.distil(
            student, self.teacher, self.sampled, self.mask, config, old_log_probs=self.old
        ).mean()

    def plain(self, config: SDPOConfig, student: torch.Tensor) -> torch.Tensor:
        return oracle.sdpo(
            student, self.teacher, self.sampled, self.mask, mode=config.mode, alpha=config.alpha,
            top_k=config.top_k, tail=config.add_tail, temperature=config.temperature,
            clip=config.is_clip, old=self.old,
        )  # fmt: skip


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.sampled_from(SETTINGS), st.sampled_from([0.7, 1.0]), st.sampled_from([None, 1.3]))
def test_values_and_gradients_are_the_plain_formula(
    seed: int, fields: dict[str, Any], temperature: float, clip: float | None
) -> None:
    config = SDPOConfig(**fields, temperature=temperature, is_clip=clip)
    batch = Batch(seed)
    expected = batch.plain(config, batch.student)
    assert float(batch.loss(config)) == pytest.approx(float(expected), rel=1e-9, abs=1e-12)
    ours = gradient(lambda at: batch.loss(config, at), batch.student)
    plain = gradient(lambda at: batch.plain(config, at), batch.student)
    assert torch.allclose(ours, plain, rtol=1e-8, atol=1e-11)


@settings(deadline=None)
@given(SEEDS, st.sampled_from(SETTINGS))
def test_what_the_mask_excludes_changes_nothing(seed: int, fields: dict[str, Any]) -> None:
    config, batch = SDPOConfig(**fields), Batch(seed)
    before = gradient(lambda at: batch.loss(config, at), batch.student)
    value = batch.loss(config)
    out = ~batch.mask
    batch.student[out], batch.teacher[out], batch.old[out] = torch.nan, torch.inf, torch.nan
    batch.sampled[out] = 0
    assert torch.equal(batch.loss(config), value)
    after = gradient(lambda at: batch.loss(config, at), batch.student)
    assert torch.equal(after, before)
    assert bool((after[out] == 0).all())


@settings(deadline=None)
@given(SEEDS, st.sampled_from(SETTINGS), st.integers(0, 2))
def test_micro_batches_add_up_to_the_batch(seed: int, fields: dict[str, Any], cut: int) -> None:
    config, batch = SDPOConfig(**fields), Batch(seed)
    tokens = int(batch.mask.sum())
    parts = [
        sdpo.distil(
            batch.student[part], batch.teacher[part], batch.sampled[part], batch.mask[part],
            config, old_log_probs=batch.old[part],
        ).mean(tokens)
        for part in (slice(cut), slice(cut, 2))
    ]  # fmt: skip
    assert float(sum(parts)) == pytest.approx(float(batch.loss(config)), abs=1e-12)


@settings(deadline=None)
@given(SEEDS, st.sampled_from(SETTINGS))
def test_padded_and_flat_tokens_are_the_same(seed: int, fields: dict[str, Any]) -> None:
    config, batch = SDPOConfig(**fields), Batch(seed)
    flat = sdpo.distil(
        batch.student[batch.mask], batch.teacher[batch.mask], batch.sampled[batch.mask],
        torch.ones(int(batch.mask.sum())), config, old_log_probs=batch.old[batch.mask],
    )  # fmt: skip
    assert torch.equal(flat.mean(), batch.loss(config))


@pytest.mark.parametrize("fields", SETTINGS)
def test_a_batch_without_feedback_has_no_gradient(fields: dict[str, Any]) -> None:
    config, batch = SDPOConfig(**fields), Batch(0)
    batch.mask = torch.zeros_like(batch.mask)
    assert float(batch.loss(config)) == 0
    found = gradient(lambda at: batch.loss(config, at), batch.student)
    assert bool((found == 0).all())
    none = sdpo.distil(batch.student, batch.teacher, batch.sampled, batch.mask, config)
    assert none.metrics() == {}


@pytest.mark.parametrize("fields", SETTINGS)
def test_the_teacher_gets_no_gradient(fields: dict[str, Any]) -> None:
    batch = Batch(2)
    batch.student.requires_grad_()
    batch.teacher.requires_grad_()
    batch.loss(SDPOConfig(**fields)).backward()
    assert batch.teacher.grad is None
    assert batch.student.grad is not None


def test_sampled_tokens_have_the_gradient_of_reverse_kl_on_average() -> None:
    """Over all tokens, weighted by the student's probability."""
    student, teacher = normal(4, 2, 1, VOCABULARY)
    tokens, everything = torch.arange(VOCABULARY), torch.ones(VOCABULARY)
    sampled = SDPOConfig(mode="sampled", alpha=1.0)
    weights = student.softmax(-1)[0]

    def expected(at: torch.Tensor) -> torch.Tensor:
        both = (each.expand(VOCABULARY, -1) for each in (at, teacher))
        return (sdpo.distil(*both, tokens, everything, sampled).loss * weights).sum()

    def reverse(at: torch.Tensor) -> torch.Tensor:
        full = SDPOConfig(mode="full", alpha=1.0)
        return sdpo.distil(at, teacher, tokens[:1], everything[:1], full).mean()

    assert torch.allclose(gradient(expected, student), gradient(reverse, student), atol=1e-12)


def test_importance_is_bounded_and_has_no_gradient() -> None:
    new = torch.tensor([-1.0, -1.0, 0.0, -50.0], requires_grad=True)
    old = torch.tensor([-1.0, -2.0, -90.0, -1.0])
    found = sdpo.importance(new, old, 2.0)
    assert found.tolist() == pytest.approx([1.0, 2.0, 2.0, 2.0611536e-9])
    assert not found.requires_grad


def test_rollout_weights_multiply() -> None:
    config, batch = SDPOConfig(mode="full"), Batch(3)
    args = (batch.student, batch.teacher, batch.sampled, batch.mask, config)
    halved = sdpo.distil(*args, rollout_weights=torch.full_like(batch.old, 0.5))
    assert float(halved.mean()) == pytest.approx(float(sdpo.distil(*args).mean()) / 2)
    assert halved.metrics()["weight"] == pytest.approx(0.5)


def test_metrics_are_means_over_tokens() -> None:
    student = torch.log(torch.tensor([[0.5, 0.5], [0.25, 0.75]]))
    teacher = torch.log(torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    config = SDPOConfig(mode="sampled", alpha=1.0)
    found = sdpo.distil(student, teacher, torch.tensor([0, 0]), torch.ones(2), config).metrics()
    assert found["log_ratio"] == pytest.approx(0, abs=1e-6)
    assert found["log_ratio_size"] == pytest.approx(0.6931472)
    assert found["weight"] == 1


def test_half_precision_is_computed_in_float32() -> None:
    config, batch = SDPOConfig(mode="top_k", top_k=3), Batch(1)
    halved = Batch(1, torch.bfloat16)
    assert halved.loss(config).dtype == torch.float32
    assert float(halved.loss(config)) == pytest.approx(float(batch.loss(config)), abs=0.05)


def test_different_vocabularies_are_an_error() -> None:
    batch = Batch(0)
    batch.teacher = batch.teacher[..., :-1]
    with pytest.raises(ValueError, match="a student of 7 tokens and a teacher of 6"):
        batch.loss(SDPOConfig(mode="full"))


def test_top_k_larger_than_the_vocabulary_is_an_error() -> None:
    with pytest.raises(ValueError, match="top_k 100 of a vocabulary of 7"):
        Batch(0).loss(SDPOConfig())


@pytest.mark.parametrize("name", ["sampled", "mask", "old"])
def test_different_shapes_are_an_error(name: str) -> None:
    batch = Batch(0)
    setattr(batch, name, getattr(batch, name)[:, :1])
    with pytest.raises(ValueError, match=r"shapes .* differ"):
        batch.loss(SDPOConfig(mode="full"))
