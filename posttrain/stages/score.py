"""Score: verdicts on completions by a judge or a reward model, as an artifact.

A fault is no score.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from posttrain.judging import completions
from posttrain.judging.config import JudgeConfig, RewardModelConfig
from posttrain.judging.opinions import Judge, Opinion, ServiceJudge
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, adopt, charter
from posttrain.store import write_durably

VERSION = 3

_CHUNK = 256
"""Completions between two saves."""


class Config(StageConfig):
    """`completions` is the stage that generated them.

    A `judge` of the reward service scores them, or a `reward` model on this stage's own cores. Up
    to the share `unjudged` it may fail: these have no score. A chunk's verdicts are waited for
    `patience` seconds.
    """

    completions: Name
    judge: JudgeConfig | None = None
    reward: RewardModelConfig | None = None
    unjudged: Share = 0.0
    patience: float = Field(default=600.0, gt=0)

    _folder: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_scores(self) -> Self:
        if (self.judge is None) == (self.reward is None):
            raise ValueError("either a judge scores or a reward model: name one of them")
        return self

    def placed(self, name: str, recipe: Path) -> Self:
        """With the folder that `reward.path` means."""
        placed = self.model_copy()
        placed._folder = recipe.parent / self.reward.path if self.reward else None
        return placed

    def inputs(self) -> dict[str, str]:
        """The completions, and the charter if the judge has one."""
        return {"completions": self.completions, **(self.judge.inputs() if self.judge else {})}

    def services(self) -> tuple[str, ...]:
        """A judge is a service."""
        return ("rewards",) if self.judge else ()

    def cores(self) -> int:
        """One per thread of a reward model."""
        return self.reward.threads if self.reward else 1

    def digests(self) -> dict[str, str]:
        """Nothing beside the config; ValueError if that states no digest of a reward model."""
        if self.reward and self.reward.digest is None:
            raise ValueError(
                f"reward model {self.reward.path} has no digest, so nobody knows what it is; "
                f"run: posttrain adopt {self.folder}"
            )
        return {}

    @property
    def folder(self) -> Path:
        """Where the reward model lies."""
        assert self._folder is not None
        return self._folder


def run(context: StageContext[Config]) -> Outcome:
    """Judge chunk by chunk; what was judged is not judged again."""
    config, named = context.config, context.inputs.get("charter")
    if config.reward is not None:
        return _rewarded(context, config.reward)
    assert config.judge is not None
    judge = ServiceJudge(
        config.judge, charter.load(named) if named else None, context.services["rewards"],
        config.patience,
    )  # fmt: skip
    return _run(context, judge, judge.identity())


def _rewarded(context: StageContext[Config], asked: RewardModelConfig) -> Outcome:
    """Score by a reward model; ValueError if it is not the one that was stated."""
    from posttrain.judging.reward_model import RewardModel
    from posttrain.training.process import threads

    folder = context.config.folder
    if (found := adopt.digest_of(folder)) != asked.digest:
        raise ValueError(
            f"reward model {asked.path} is not what was stated: its digest is {found}, not "
            f"{asked.digest}; restore it, or state the new digest"
        )
    device = "cuda" if context.backend == "gpu" else "cpu"
    model = RewardModel.load(folder, asked.batch, device)
    with threads(asked.threads):
        return _run(context, model, {"reward_model": found, **model.identity()})


def _run(context: StageContext[Config], judge: Judge, identity: dict[str, str]) -> Outcome:
    config = context.config
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
    context: StageContext[Config], judge: Judge, lines: Sequence[Mapping[str, Any]],
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
