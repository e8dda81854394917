"""Calibrate: how well a judge tells worse responses from better ones; below a bar it fails."""

import json
from itertools import islice
from typing import Any, Literal

from pydantic import Field, PositiveInt

from posttrain.data import splits
from posttrain.judging import calibration
from posttrain.judging.config import JudgeConfig
from posttrain.judging.opinions import ServiceJudge
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter

VERSION = 1


class Config(StageConfig):
    """The first `rows` dialogues of `data` end with good responses; `require` is what must hold.

    A stage whose judge is `calibrated` by this one runs only if it does.
    """

    data: Name
    judge: JudgeConfig
    rows: PositiveInt = 50
    rungs: PositiveInt = 5
    require: dict[Literal["spearman", "kendall", "consistency"], Share] = Field(min_length=1)
    patience: float = Field(default=600.0, gt=0)

    def inputs(self) -> dict[str, str]:
        """The dialogues, and the charter if the judge has one."""
        return {f"data.{self.data}": self.data, **self.judge.inputs()}

    def services(self) -> tuple[str, ...]:
        """Verdicts come from a service."""
        return ("rewards",)


def run(context: StageContext[Config]) -> Outcome:
    """Ask the judge; RuntimeError if it is not good enough."""
    config, named = context.config, context.inputs.get("charter")
    text = charter.load(named) if named else None
    judge = ServiceJudge(
        config.judge, text, context.services["rewards"], config.patience, fresh=True
    )
    path = context.inputs[f"data.{config.data}"].path / "train.jsonl"
    rows: list[dict[str, Any]] = list(islice(splits.contents(path), config.rows))
    found = calibration.calibrate(
        judge, rows, config.rungs, context.seed, judge.rules()
    )  # fmt: skip
    (context.output / "calibration.json").write_text(json.dumps(found, indent=1))
    context.report(Progress(1, 1, phase="calibrate", metrics=found))
    if lacking := calibration.shortfalls(found, {str(k): v for k, v in config.require.items()}):
        raise RuntimeError(
            f"judge {config.judge.verifier} is not good enough: {'; '.join(lacking)}; use another "
            "judge or other texts for it"
        )
    return Outcome(found, {"judge": judge.identity()})
