"""Score: a judge's verdicts on completions, as an artifact. A fault is no score."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from posttrain.judging import completions
from posttrain.judging.config import JudgeConfig
from posttrain.judging.opinions import Opinion, ServiceJudge
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter
from posttrain.store import write_durably

VERSION = 2

_CHUNK = 256
"""Completions between two saves."""


class Config(StageConfig):
    """`completions` is the stage that generated them.

    Up to the share `unjudged` the judge may fail: these have no score. A chunk's verdicts are
    waited for `patience` seconds.
    """

    completions: Name
    judge: JudgeConfig
    unjudged: Share = 0.0
    patience: float = Field(default=600.0, gt=0)

    def inputs(self) -> dict[str, str]:
        """The completions, and the charter if the judge has one."""
        return {"completions": self.completions, **self.judge.inputs()}

    def services(self) -> tuple[str, ...]:
        """Verdicts come from a service."""
        return ("rewards",)


def run(context: StageContext[Config]) -> Outcome:
    """Judge chunk by chunk; what was judged is not judged again."""
    config, named = context.config, context.inputs.get("charter")
    judge = ServiceJudge(
        config.judge, charter.load(named) if named else None, context.services["rewards"],
        config.patience,
    )  # fmt: skip
    identity = judge.identity()
    path = context.inputs["completions"].path / completions.COMPLETIONS
    lines, found = list(completions.read(path)), list[Opinion]()
    for first in range(0, len(lines), _CHUNK):
        found += _chunk(context, judge, lines[first : first + _CHUNK], first)
        context.report(Progress(len(found), len(lines), phase="score"))
    figures = completions.check(found, config.unjudged)
    told = (completions.told(*pair) for pair in zip(lines, found, strict=True))
    completions.write(context.output / completions.SCORES, told)
    return Outcome(figures, {"judge": identity})


def _chunk(
    context: StageContext[Config], judge: ServiceJudge, lines: Sequence[Mapping[str, Any]],
    first: int,
) -> list[Opinion]:  # fmt: skip
    """Opinions on a chunk: kept ones, or new ones, which are kept if the judge did not fail."""
    path = context.work / f"{first}.json"
    if path.is_file():
        return [Opinion(**values) for values in json.loads(path.read_text("utf-8"))]
    prompts = [line["prompt"] for line in lines]
    found = judge.opinions(prompts, [completions.turn(line) for line in lines])
    completions.check(found, context.config.unjudged)
    write_durably(path, json.dumps([each.__dict__ for each in found], ensure_ascii=False))
    return found
