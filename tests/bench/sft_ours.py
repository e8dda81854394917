"""This project's engine, as the SFT stage drives it: `python -m tests.bench.sft_ours SPEC`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.backends import profile

os.environ.update(profile("cpu").environment)

from transformers import AutoModelForCausalLM

from posttrain.data.chat import Rendered
from posttrain.training import loop, xielu
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.process import single_process_group, threads
from posttrain.training.schedules import ScheduleConfig
from posttrain.training.sft import LOSS
from tests.bench.sft_rounds import Rounds, run, spec

CONSTANT = ScheduleConfig.model_validate({"constant": {}})


def main() -> None:
    """Train until input ends."""
    given = spec()
    rounds = Rounds(given.steps)
    optimizer = OptimizerConfig.model_validate({"adamw": {"lr": given.rate}})
    with threads(given.threads), single_process_group("cpu"):
        model = AutoModelForCausalLM.from_pretrained(given.model, dtype="auto")
        xielu.quicken(model)
        engine = Engine(model, Path(given.model), optimizer, CONSTANT, 1000, "cpu")

        def step(batch: Sequence[Any]) -> float:
            documents = [Rendered(**each) for packed in batch for each in packed]
            return loop.update(engine, tensors(rows(documents)), LOSS)[0]["loss"]

        run(given, step, rounds)


if __name__ == "__main__":
    main()
