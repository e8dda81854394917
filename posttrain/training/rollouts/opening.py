"""The sampler that a stage asks for, over the checkpoint that its trainer starts from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from posttrain.training import checkpoint, xielu
from posttrain.training.completions import token_log_probs
from posttrain.training.engine import Engine
from posttrain.training.rollouts import vllm
from posttrain.training.rollouts.checked import Checked
from posttrain.training.rollouts.config import LocalConfig, RolloutsConfig
from posttrain.training.rollouts.source import Local, Rollouts


@dataclass(frozen=True)
class Limits:
    """Most tokens of a prompt and of a response, what ends one, and the temperature."""

    prompt: int
    response: int
    stop_ids: Sequence[int]
    temperature: float


@contextmanager
def opened(
    config: RolloutsConfig, artifact: Path, facts: Mapping[str, Any], engine: Engine,
    limits: Limits, *, seed: int, backend: str, work: Path,
) -> Iterator[Rollouts]:  # fmt: skip
    """A sampler for the duration, from checkpoint `artifact` with `facts`; `engine` trains it.

    EngineLost as `vllm.started`.
    """
    if isinstance(config, LocalConfig):
        model = checkpoint.load_model(artifact, facts)
        xielu.quicken(model)
        yield Local(model, limits.stop_ids, limits.response, limits.temperature)
        return
    with vllm.started(
        config, artifact / "model", prompt=limits.prompt, response=limits.response,
        temperature=limits.temperature, stop_ids=limits.stop_ids, seed=seed, backend=backend,
        work=work,
    ) as rollouts:  # fmt: skip
        trainer = partial(token_log_probs, engine, temperature=limits.temperature)
        yield Checked(rollouts, trainer, config.gap)
