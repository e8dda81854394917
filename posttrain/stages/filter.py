"""Filter: an auxiliary checkpoint answers verifiable prompts; which of them stay, its results tell.

Verdicts carry over, weights do not: the checkpoint, and what is trained from it, is never promoted
(`posttrain.auxiliary`). The artifact is data: the rows that stay, and `trials.jsonl` with the
trial of each row. A row with an attempt that got no score does not stay: nothing is known of it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from posttrain import digest
from posttrain.data import manifest, splits
from posttrain.data.checks.rows import Row
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.store import Artifact, write_durably

VERSION = 2
TRIALS = "trials.jsonl"
AUXILIARY = "auxiliary"
"""The fact that names the checkpoint by its address."""

_CHUNK = 128
"""Prompts between two saves."""

Trial = Mapping[str, int]
"""`attempts`, `solved`, `unscored`."""


class Keep(BaseModel):
    """A prompt stays if the share of its attempts that solved it is within these bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    least: Share
    most: Share

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least ({self.least:.4g}) is above most ({self.most:.4g})")
        return self


class Config(StageConfig):
    """The train split of `data` is tried by the checkpoint `from`; a score of 1 is solved.

    The run stops if more than `most_unscored` of the attempts get no score.
    """

    source: str = Field(alias="from")
    data: Name
    verifier: str
    keep: Keep
    attempts: PositiveInt
    max_new_tokens: PositiveInt
    temperature: float = Field(ge=0, le=2)
    thinking: bool = False
    most_unscored: Share = 0.02
    threads: PositiveInt = 1

    @model_validator(mode="after")
    def _attempts_differ(self) -> Self:
        if self.attempts > 1 and self.temperature == 0:
            raise ValueError("attempts at temperature 0 are all the same: set temperature: 1.0")
        return self

    def inputs(self) -> dict[str, str]:
        """The auxiliary checkpoint and the prompts."""
        return {"from": self.source, f"data.{self.data}": self.data}

    def services(self) -> tuple[str, ...]:
        """Attempts are scored by the reward service, as in training."""
        return ("rewards",)

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Try every prompt, chunk by chunk, and write those that stay.

    RuntimeError if too many attempts got no score; ValueError if no prompt stays.
    """
    config, data = context.config, context.inputs[f"data.{context.config.data}"]
    before = manifest.read(data.path)
    if "train" not in before.splits:
        raise ValueError(f"{data.address} has no train split to filter")
    found = list(_trials(context, data, before.splits["train"].rows))
    figures = _figures(found, config)
    _write_trials(context, found)
    stays = iter([_stays(trial, config.keep) for trial in found])
    every = {name: _contents(data, name) for name in before.splits}
    every["train"] = (row for row in every["train"] if next(stays))
    written = manifest.write(
        context.output, every,
        licence=before.licence, owner=before.owner, sources=before.sources,
    )  # fmt: skip
    if not written.splits["train"].rows:
        raise ValueError(
            f"no prompt of {data.address} was solved in {config.keep.least:.0%} to "
            f"{config.keep.most:.0%} of its attempts (mean {figures['solved_share']:.1%})"
        )
    return Outcome(figures | written.figures(), {AUXILIARY: context.inputs["from"].address})


def _trials(context: StageContext[Config], data: Artifact, total: int) -> Iterator[Trial]:
    """The trial of each row; a chunk that is done is not done again."""
    attempt = _attempter(context)
    rows, done = _contents(data, "train"), 0
    while chunk := list(islice(rows, _CHUNK)):
        path = context.work / f"{done}.json"
        if not path.is_file():
            _check(chunk, done, data, context.config)
            write_durably(path, json.dumps(attempt(chunk, done)))
        yield from json.loads(path.read_bytes())
        done += len(chunk)
        context.report(Progress(done, total, phase="prompts"))


def _attempter(
    context: StageContext[Config],
) -> Callable[[Sequence[Mapping[str, Any]], int], list[Trial]]:
    """Load the checkpoint; what is returned tries the prompts from a given row on."""
    from posttrain.evaluation.capability import Auxiliary, Sampling
    from posttrain.training.process import threads

    config = context.config
    checkpoint = Auxiliary(context.inputs["from"], context.services["rewards"])
    how = Sampling(
        config.verifier, config.attempts, config.thinking, config.temperature,
        config.max_new_tokens,
    )  # fmt: skip

    def attempt(rows: Sequence[Mapping[str, Any]], first: int) -> list[Trial]:
        seed = int(digest.of_value([context.seed, first])[:15], 16)
        with threads(config.threads):
            return [trial._asdict() for trial in checkpoint.trials(rows, how, seed)]

    return attempt


def _contents(data: Artifact, split: str) -> Iterator[Mapping[str, Any]]:
    for row in splits.rows(data.path / f"{split}.jsonl", split):
        assert isinstance(row, Row), f"{data.address} was committed with a broken row: {row}"
        yield row.content


def _check(rows: Sequence[Mapping[str, Any]], first: int, data: Artifact, config: Config) -> None:
    """ValueError names a row that cannot be verified."""
    for number, row in enumerate(rows, first + 1):
        told = None
        if not row.get("gold") or "messages" not in row:
            told = "has no messages with a gold answer, so nothing can be verified"
        elif row.get("verifier", config.verifier) != config.verifier:
            told = f"is for verifier {row['verifier']!r}, the stage asks for {config.verifier!r}"
        if told:
            raise ValueError(f"{data.address}, train.jsonl: row {number} {told}")


def _stays(trial: Trial, keep: Keep) -> bool:
    share = trial["solved"] / trial["attempts"]
    return not trial["unscored"] and keep.least <= share <= keep.most


def _figures(found: Sequence[Trial], config: Config) -> dict[str, float]:
    """RuntimeError if too many attempts got no score."""
    attempts, unscored = (sum(trial[key] for trial in found) for key in ("attempts", "unscored"))
    if unscored > config.most_unscored * attempts:
        raise RuntimeError(
            f"{unscored:,} of {attempts:,} attempts got no score, more than "
            f"{config.most_unscored:.1%}: what the checkpoint can do is not known; see the log of "
            "the reward service"
        )
    return {
        "prompts": float(len(found)),
        "attempts": float(attempts),
        "unscored": float(unscored),
        "prompts.unscored": float(sum(trial["unscored"] > 0 for trial in found)),
        "solved_share": sum(trial["solved"] for trial in found) / max(1, attempts - unscored),
        "kept": float(sum(_stays(trial, config.keep) for trial in found)),
    }


def _write_trials(context: StageContext[Config], found: Sequence[Trial]) -> None:
    with (context.output / TRIALS).open("w", encoding="utf-8") as lines:
        for number, trial in enumerate(found, 1):
            kept = _stays(trial, context.config.keep)
            lines.write(json.dumps({"row": number, **trial, "kept": kept}) + "\n")
