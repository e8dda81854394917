"""Check: one data check over the training rows of a data set; the artifact holds those that stay.

Other splits pass unchanged: they are what is measured. Data that a check refuses makes no artifact;
its report lies in the stage's work folder.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from posttrain.data import checks, manifest, splits
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.rows import Dataset, Fault, Row
from posttrain.data.manifest import Manifest
from posttrain.evaluation.suites import Split
from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.stages.files import tokenized
from posttrain.store import Artifact, write_durably

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat
    from posttrain.data.checks.report import Outcome as Checked
    from posttrain.data.checks.report import Report

VERSION = 2
REPORT = "report.json"

_OF_TOKENS = ("lint", "licences", "duplicates")
"""Checks that tell something of rows that hold tokens alone."""


class Config(StageConfig):
    """`check` names the check and `from` the data; other keys are that check's own parameters.

    `against` are the splits it compares with, where it does; with `tokenizer` tokens are counted.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    check: str
    source: Name = Field(alias="from")
    against: tuple[Split, ...] = ()
    tokenizer: Name | None = None

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        needs = checks.module(self.check).NEEDS
        for need, key, given in (
            ("benchmarks", "against", self.against), ("chat", "tokenizer", self.tokenizer),
        ):  # fmt: skip
            if need in needs and not given:
                raise ValueError(f"check {self.check} needs `{key}`")
        if self.against and "benchmarks" not in needs:
            raise ValueError(f"check {self.check} has no use for `against`")
        self.parameters()
        return self

    @classmethod
    def described_by(cls, raw: Mapping[str, Any]) -> type[BaseModel]:
        """The parameters of the check that `raw` names."""
        parameters: type[BaseModel] = checks.module(raw["check"]).Parameters
        return parameters

    def parameters(self) -> Any:
        """The check's own parameters, checked."""
        return checks.module(self.check).Parameters.model_validate(self.model_extra or {})

    def inputs(self) -> dict[str, str]:
        """The data, the tokenizer and the data of each benchmark."""
        named = {f"benchmark.{split}": split.partition(".")[0] for split in self.against}
        counter = {"tokenizer": self.tokenizer} if self.tokenizer else {}
        return {f"data.{self.source}": self.source} | counter | named

    def digests(self) -> dict[str, str]:
        """The code of the checks: a report of an earlier one is no report."""
        return {"code": checks.code()}


def run(context: StageContext[Config]) -> Outcome:
    """Run the check; ValueError, after its report was written, if the data may not be used."""
    data = context.inputs[f"data.{context.config.source}"]
    before, chat = manifest.read(data.path), tokenized(context)
    outcome = _checked(context, data, before, chat)
    path = context.work / REPORT
    write_durably(path, outcome.report.model_dump_json(indent=1))
    try:
        outcome.require()
    except ValueError as refused:
        raise ValueError(f"{refused} (report: {path})") from None
    (context.output / REPORT).write_bytes(path.read_bytes())
    every = {name: _rows(context.config.source, data, name) for name in before.splits}
    every["train"] = outcome.kept(every["train"])
    written = manifest.write(
        context.output, every,
        chat=chat, licence=before.licence, owner=before.owner, sources=before.sources,
    )  # fmt: skip
    if not written.splits["train"].rows:
        raise ValueError(f"{context.config.check} removed every row (report: {path})")
    return Outcome(_figures(outcome.report) | written.figures(), {"check": context.config.check})


def _checked(
    context: StageContext[Config], data: Artifact, before: Manifest, chat: "ChatFormat | None"
) -> "Checked":
    config = context.config
    train = _dataset(config.source, data, "train", config.check)
    benchmarks = [
        _dataset(split, context.inputs[f"benchmark.{split}"], split.partition(".")[2], config.check)
        for split in config.against
    ]
    watched = _reported(train, before.splits["train"].rows, context.report)
    inputs = Inputs([watched], context.seed, benchmarks, chat)
    outcome: Checked = checks.module(config.check).run(inputs, config.parameters())
    return outcome


def _dataset(name: str, artifact: Artifact, split: str, check: str) -> Dataset:
    """A split of a data artifact, as `check` reads it."""
    found = manifest.read(artifact.path)
    if split not in found.splits:
        raise ValueError(f"{artifact.address} has no rows in split {split}, so none to check")

    def read() -> Iterator[Row | Fault]:
        for row in _rows(name, artifact, split):
            if "tokens" in row.content and check not in _OF_TOKENS:
                yield Fault(row.place, "tokens", f"check {check} reads text, and there is none")
            else:
                yield row

    return Dataset(name, artifact.record.digest, read, found.licence)


def _rows(name: str, artifact: Artifact, split: str) -> Iterator[Row]:
    """The rows of a split, as those of data set `name`."""
    for row in splits.rows(artifact.path / f"{split}.jsonl", name):
        assert isinstance(row, Row), f"{artifact.address} was committed with a broken row: {row}"
        yield row


def _reported(dataset: Dataset, rows: int, report: Callable[[Progress], None]) -> Dataset:
    """The same data, whose reading is the stage's sign of life; a check may read it twice."""

    def read() -> Iterator[Row | Fault]:
        for count, row in enumerate(dataset.read(), 1):
            yield row
            if count % manifest.EVERY == 0 or count == rows:
                report(Progress(count, rows, phase="rows"))

    return replace(dataset, read=read)


def _figures(report: "Report") -> dict[str, float]:
    return {"checked": float(report.rows), "removed": float(report.removed), **report.figures}
