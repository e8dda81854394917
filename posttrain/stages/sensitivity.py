"""Sensitivity: the prompts of a data set whose class, from 0 to 3, is among those kept.

The artifact is data: the rows that stay, each with its `sensitivity`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from posttrain.data import manifest, splits
from posttrain.data.checks.rows import Row
from posttrain.judging import completions, sensitivity
from posttrain.judging.config import JudgeConfig
from posttrain.judging.opinions import Opinion, ServiceJudge
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter
from posttrain.store import write_durably

VERSION = 1

_CHUNK = 256
"""Prompts between two saves."""


class Config(StageConfig):
    """`keep` are the lowest and the highest class that stays.

    A class is `scale` times the judge's score, to the nearest. Up to the share `unjudged` it may
    fail: these prompts do not stay. A chunk's verdicts are waited for `patience` seconds.
    """

    data: Name
    judge: JudgeConfig
    scale: PositiveInt = 4
    keep: tuple[int, int]
    unjudged: Share = 0.0
    patience: PositiveFloat = 600.0

    @model_validator(mode="after")
    def _some_classes(self) -> Self:
        least, most = self.keep
        if not 0 <= least <= most <= sensitivity.HIGHEST:
            raise ValueError(
                f"keep: [{least}, {most}] are no classes from 0 to {sensitivity.HIGHEST} in order"
            )
        return self

    def inputs(self) -> dict[str, str]:
        """The prompts, and the charter if the judge has one."""
        return {f"data.{self.data}": self.data, **self.judge.inputs()}

    def services(self) -> tuple[str, ...]:
        """Verdicts come from a service."""
        return ("rewards",)


def run(context: StageContext[Config]) -> Outcome:
    """Classify chunk by chunk and write what stays; ValueError if nothing of the train split does.

    RuntimeError if the judge fails too often.
    """
    config, named = context.config, context.inputs.get("charter")
    judge = ServiceJudge(
        config.judge, charter.load(named) if named else None, context.services["rewards"],
        config.patience,
    )  # fmt: skip
    identity, data = judge.identity(), context.inputs[f"data.{config.data}"]
    before = manifest.read(data.path)
    classes: list[int | None] = []
    kept: dict[str, list[dict[str, Any]]] = {}
    for split in before.splits:
        rows = [_content(row) for row in splits.rows(data.path / f"{split}.jsonl", split)]
        asked = _asked(context, judge, rows, split)
        found = [sensitivity.classed(each, config.scale) for each in asked]
        kept[split] = list(_kept(rows, found, config.keep))
        classes += found
    written = manifest.write(
        context.output, kept, licence=before.licence, owner=before.owner, sources=before.sources
    )
    if not kept.get("train"):
        least, most = config.keep
        raise ValueError(f"no prompt of {data.address} is of class {least} to {most}")
    count = sum(map(len, kept.values()))
    return Outcome(sensitivity.figures(classes, count) | written.figures(), {"judge": identity})


def _content(row: Any) -> Mapping[str, Any]:
    assert isinstance(row, Row), f"a committed row is broken: {row}"
    return row.content


def _kept(
    rows: Sequence[Mapping[str, Any]], classes: Sequence[int | None], keep: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    for row, found in zip(rows, classes, strict=True):
        if found is not None and keep[0] <= found <= keep[1]:
            yield {**row, "sensitivity": found}


def _asked(
    context: StageContext[Config], judge: ServiceJudge, rows: Sequence[Mapping[str, Any]],
    split: str,
) -> list[Opinion]:  # fmt: skip
    """An opinion on each prompt; a chunk that was judged is not judged again."""
    left, found = iter(rows), list[Opinion]()
    while chunk := list(islice(left, _CHUNK)):
        found += _chunk(context, judge, chunk, f"{split}.{len(found)}.json")
        context.report(Progress(len(found), len(rows), phase=split))
    return found


def _chunk(
    context: StageContext[Config], judge: ServiceJudge, rows: Sequence[Mapping[str, Any]],
    name: str,
) -> list[Opinion]:  # fmt: skip
    path, config = context.work / name, context.config
    if path.is_file():
        return [Opinion(**values) for values in json.loads(path.read_text("utf-8"))]
    opinions = sensitivity.opinions(judge, rows)
    found = [sensitivity.faulted(each, config.scale) for each in opinions]
    completions.check(found, config.unjudged)
    write_durably(path, json.dumps([each.__dict__ for each in found], ensure_ascii=False))
    return found
