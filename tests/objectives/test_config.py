import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from posttrain.objectives.config import DPOConfig, QRPOConfig, SDPOConfig, TeacherConfig


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (SDPOConfig, {"mode": "sampled"}, "mode sampled is reverse KL: set alpha to 1, not 0.5"),
        (SDPOConfig, {"mode": "full", "top_k": 3}, "mode full has no top_k: remove it"),
        (SDPOConfig, {"alpha": 1.5}, "less than or equal to 1"),
        (SDPOConfig, {"top_k": 0}, "greater than 0"),
        (SDPOConfig, {"temperature": 0}, "greater than 0"),
        (SDPOConfig, {"ema_update_rate": 0.01}, "Extra inputs"),
        (QRPOConfig, {"beta": 1, "length_normalized": False}, "beta 1.0 is above cap 0.1"),
        (DPOConfig, {"label_smoothing": 0.5}, "less than 0.5"),
        (DPOConfig, {"beta": 0}, "greater than 0"),
        (TeacherConfig, {"regularization": "frozen", "rate": 0.1}, "by frozen has no rate"),
        (TeacherConfig, {"regularization": "ema"}, "by ema needs a rate"),
    ],
)
def test_what_makes_no_sense_is_refused(
    model: type[BaseModel], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        model(**fields)


@pytest.mark.parametrize(
    ("fields", "branch"),
    [
        ({"alpha": 0}, "forward_kl"),
        ({"alpha": 1}, "reverse_kl"),
        ({"alpha": 1e-9}, "jsd"),
        ({}, "jsd"),
        ({"mode": "sampled", "alpha": 1}, "sampled_reverse_kl"),
    ],
)
def test_the_branch_that_runs_has_a_name(fields: dict[str, Any], branch: str) -> None:
    assert SDPOConfig(**fields).branch == branch


def test_a_plan_needs_no_torch() -> None:
    code = "import sys, posttrain.objectives.config; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "False"
