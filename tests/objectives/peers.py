"""TRL's values and gradients of the same objectives, for a Python that has TRL and nothing of ours.

    python tests/objectives/peers.py > tests/objectives/peers.json

writes the inputs beside the results, so that the comparison in `test_peers` needs no TRL. Made with
TRL 1.16.0, torch 2.13.0, transformers 5.24.0.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from trl import DPOTrainer, __version__
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.sdpo import loss_utils

TEMPERATURE = 0.7
ALPHAS = (0.0, 0.2, 0.5, 1.0)


def results(
    inputs: dict[str, np.ndarray], of: str, cases: dict[str, Callable[..., torch.Tensor]]
) -> dict[str, Any]:
    """Each case's values for the inputs, and the gradient of their sum in `of`, in float64."""
    found = {}
    for name, value in cases.items():
        tensors = {key: torch.tensor(array) for key, array in inputs.items()}
        tensors[of].requires_grad_()
        values = value(**tensors)
        (gradient,) = torch.autograd.grad(values.sum(), tensors[of])
        found[name] = {"values": values.tolist(), "gradient": gradient.tolist()}
    lists = {key: array.tolist() for key, array in inputs.items()}
    return {"inputs": lists, "cases": found}


def distillation(rng: np.random.Generator) -> dict[str, Any]:
    """SDPO in its three modes and GKD's divergence, on logits (5, 9)."""
    inputs = {
        "student": rng.normal(0, 2, (5, 9)), "teacher": rng.normal(0, 2, (5, 9)),
        "sampled": rng.integers(0, 9, 5), "old_log_probs": -rng.exponential(2.0, 5),
    }  # fmt: skip

    def weighted(losses: Callable[..., torch.Tensor], **options: Any) -> Callable[..., Any]:
        def value(student: Any, teacher: Any, sampled: Any, old_log_probs: Any) -> torch.Tensor:
            student, teacher = student / TEMPERATURE, teacher / TEMPERATURE
            extra = {"completion_ids": sampled} if options.get("sampled") else {}
            kept = {key: option for key, option in options.items() if key != "sampled"}
            found = losses(student, teacher, **extra, **kept)
            ours = student.log_softmax(-1).gather(-1, sampled[:, None])[:, 0]
            return loss_utils.apply_importance_sampling_clipping(found, ours, old_log_probs, 1.5)

        return value

    def gkd(alpha: float) -> Callable[..., torch.Tensor]:
        def value(student: Any, teacher: Any, **_: Any) -> torch.Tensor:
            found: torch.Tensor = GKDTrainer.generalized_jsd_loss(
                student, teacher, beta=alpha, temperature=TEMPERATURE, reduction="none"
            )
            return found.sum(-1)

        return value

    cases: dict[str, Callable[..., torch.Tensor]] = {}
    for alpha in ALPHAS:
        full = weighted(
            loss_utils.compute_full_logit_self_distillation_loss, distillation_alpha=alpha
        )
        cases[f"full {alpha}"] = full
        cases[f"gkd {alpha}"] = gkd(alpha)
        for tail in (True, False):
            top = weighted(
                loss_utils.compute_topk_self_distillation_loss, distillation_alpha=alpha,
                distillation_topk=3, distillation_add_tail=tail,
            )  # fmt: skip
            cases[f"top_k {alpha}{' tail' * tail}"] = top
    cases["sampled 1.0"] = weighted(
        loss_utils.compute_sampled_token_self_distillation_loss, distillation_alpha=1.0,
        sampled=True,
    )  # fmt: skip
    return results(inputs, "student", cases)


class Accelerator:
    """As the trainer asks for it, on one process."""

    device = torch.device("cpu")

    def gather(self, value: torch.Tensor) -> torch.Tensor:
        return value

    gather_for_metrics = gather


def dpo_trainer(loss: str, beta: float, smoothing: float) -> Any:
    """TRL's trainer with just what its loss asks for."""
    trainer = object.__new__(DPOTrainer)
    trainer.__dict__.update(
        model=SimpleNamespace(training=True), accelerator=Accelerator(), aux_loss_enabled=False,
        ld_alpha=None, precompute_ref_logps=True, f_divergence_type="reverse_kl",
        loss_types=[loss], loss_weights=[1.0], beta=beta, label_smoothing=smoothing,
        use_weighting=False, _metrics={"train": defaultdict(list)}, _total_train_tokens=0,
        _tp_size=1,
    )  # fmt: skip
    return trainer


def dpo_loss(
    loss: str, beta: float, smoothing: float, policy: Any, reference: Any, mask: Any
) -> torch.Tensor:
    """TRL's mean loss; policy and reference (2 pairs, tokens), the chosen sides first."""
    ahead = torch.cat([torch.zeros_like(mask[:, :1]), mask], dim=1)
    nothing = torch.zeros_like(policy)
    outputs = SimpleNamespace(
        log_probs=policy * mask, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool()
    )
    chosen, rejected = (reference * mask).sum(-1).chunk(2)
    inputs = {
        "input_ids": torch.zeros_like(ahead), "attention_mask": torch.ones_like(ahead),
        "completion_mask": ahead, "ref_chosen_logps": chosen, "ref_rejected_logps": rejected,
    }  # fmt: skip
    trainer = dpo_trainer(loss, beta, smoothing)
    found: torch.Tensor = trainer._compute_loss(lambda **_: outputs, inputs, False)
    return found


def preference(rng: np.random.Generator) -> dict[str, Any]:
    """DPO of 4 pairs of up to 6 tokens: plain, normalised by length, with smoothed labels.

    TRL's "robust" is ((1 - e) plain - e flipped) / (1 - 2 e); smoothed labels have a plus there.
    """
    inputs = {
        "policy": -rng.exponential(1.0, (8, 6)), "reference": -rng.exponential(1.0, (8, 6)),
        "mask": (np.arange(6) < rng.integers(1, 7, (8, 1))).astype(np.int64),
    }  # fmt: skip

    def smoothed(**tensors: torch.Tensor) -> torch.Tensor:
        plain = dpo_loss("sigmoid", 0.3, 0.0, **tensors)
        robust = dpo_loss("robust", 0.3, 0.1, **tensors)
        return 2 * 0.9 * plain - 0.8 * robust

    cases = {
        "plain": partial(dpo_loss, "sigmoid", 0.3, 0.0),
        "normalized": partial(dpo_loss, "sigmoid_norm", 5.0, 0.0),
        "smoothed": smoothed,
    }
    return results(inputs, "policy", cases)


if __name__ == "__main__":
    rng = np.random.default_rng(20601)
    found = {"trl": __version__, "sdpo": distillation(rng), "dpo": preference(rng)}
    json.dump(found, sys.stdout)
    print()
