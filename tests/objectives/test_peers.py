"""Agreement with TRL's own code, by its stored results or, given a Python that has TRL, live.

TRL_PYTHON=/path/to/python pytest tests/objectives/test_peers.py
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from posttrain.objectives import dpo, sdpo
from posttrain.objectives.completions import Completions
from posttrain.objectives.config import DPOConfig, SDPOConfig

SCRIPT = Path(__file__).with_name("peers.py")
DPO = {
    "plain": {"beta": 0.3},
    "normalized": {"beta": 5, "length_normalized": True},
    "smoothed": {"beta": 0.3, "label_smoothing": 0.1},
}


@pytest.fixture(scope="module", params=["stored", "live"])
def peers(request: pytest.FixtureRequest) -> Any:
    """Inputs and TRL's results, as `peers.py` prints them."""
    if request.param == "stored":
        return json.loads(SCRIPT.with_suffix(".json").read_text(encoding="utf-8"))
    python = os.environ.get("TRL_PYTHON")
    if python is None:
        pytest.skip("TRL_PYTHON names no Python that has TRL")
    done = subprocess.run(
        [python, str(SCRIPT)], check=True, capture_output=True, text=True, timeout=240
    )
    return json.loads(done.stdout)


def _config(case: str) -> SDPOConfig:
    """`full 0.5`, `top_k 0.5 tail`, `top_k 0.5`, `sampled 1.0`; `gkd` has no importance weight."""
    mode, alpha, *tail = case.split()
    fields: dict[str, Any] = {"mode": mode, "alpha": alpha, "is_clip": 1.5, "temperature": 0.7}
    if mode == "top_k":
        fields |= {"top_k": 3, "add_tail": bool(tail)}
    if mode == "gkd":
        fields |= {"mode": "full", "is_clip": None}
    return SDPOConfig(**fields)


def _agree(found: torch.Tensor, at: torch.Tensor, expected: Any, dtype: torch.dtype) -> None:
    (gradient,) = torch.autograd.grad(found.sum(), at)
    for ours, theirs in ((found, expected["values"]), (gradient, expected["gradient"])):
        assert torch.allclose(ours, torch.tensor(theirs, dtype=dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distillation_agrees(peers: Any, dtype: torch.dtype) -> None:
    inputs = peers["sdpo"]["inputs"]
    teacher, old = (
        torch.tensor(inputs[each], dtype=dtype) for each in ("teacher", "old_log_probs")
    )
    sampled = torch.tensor(inputs["sampled"])
    assert len(peers["sdpo"]["cases"]) == 17
    for name, expected in peers["sdpo"]["cases"].items():
        student = torch.tensor(inputs["student"], dtype=dtype, requires_grad=True)
        found = sdpo.distil(
            student, teacher, sampled, torch.ones_like(sampled), _config(name), old_log_probs=old
        )
        _agree(found.loss, student, expected, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DPO)
def test_preference_agrees(peers: Any, name: str, dtype: torch.dtype) -> None:
    inputs = peers["dpo"]["inputs"]
    policy = torch.tensor(inputs["policy"], dtype=dtype, requires_grad=True)
    reference, mask = torch.tensor(inputs["reference"], dtype=dtype), torch.tensor(inputs["mask"])
    sides = [
        Completions.summed(policy[part], reference[part], mask[part])
        for part in (slice(4), slice(4, 8))
    ]
    found = dpo.prefer(sides[0], sides[1], DPOConfig(**DPO[name]))
    _agree(found.mean(), policy, peers["dpo"]["cases"][name], dtype)
