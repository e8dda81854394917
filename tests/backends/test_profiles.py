import subprocess
import sys

import pytest

from posttrain.backends import profile


def test_an_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown backend 'tpu'; known backends: cpu, gpu"):
        profile("tpu")


def test_profiles_are_plain_data_and_import_nothing_heavy() -> None:
    look = (
        "import sys; from posttrain.backends import profile; profile('cpu'); profile('gpu');"
        "print([name for name in ('torch', 'ray', 'verl', 'vllm') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_both_profiles_carry_weights_between_processes() -> None:
    """separate_async refuses verl's in-process weight sync."""
    key = "actor_rollout_ref.rollout.checkpoint_engine.backend"
    assert {profile(name).rollout[key] for name in ("cpu", "gpu")} == {"gloo", "nccl"}
