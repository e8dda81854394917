"""A small world for training tests: real data, tokenizer and a checkpoint of a few steps."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from posttrain.data.generators import GENERATORS
from posttrain.data.tokenizer import row_texts, train_tokenizer
from posttrain.evaluation.suites import Continuation
from posttrain.training import jobs, pretraining
from posttrain.training.jobs import Job, Measure, Training
from posttrain.training.sft import Start

TRAINING: dict[str, Any] = {
    "model": {
        "architecture": "apertus", "hidden": 32, "layers": 2, "heads": 2, "feed_forward": 64,
        "vocabulary": 420, "context": 512,
    },
    "steps": 12, "batch": 8, "threads": 1, "save_every": 4,
    "optimizer": {"muon": {"lr": 2e-2}, "adamw": {"lr": 5e-3}},
    "schedule": {"wsd": {"warmup": 2, "decay": "50%"}},
}  # fmt: skip


CHAINS = Continuation(kind="continuation", data="corpus.holdout")


class World:
    """Folders of rows by name, a tokenizer folder, and jobs and checkpoints made from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.corpus = self._rows("corpus", "tiny.corpus", documents=160, holdout=12)
        self.dialogues = self._rows("dialogues", "tiny.dialogues", rows=60)
        self.documents = self._rows("documents", "tiny.long_documents", rows=12, tokens=[64])
        rows = [*read(self.corpus / "train.jsonl"), *read(self.dialogues / "train.jsonl")]
        texts = [text for row in rows for text in row_texts(row)]
        self.tokenizer: PreTrainedTokenizerFast = train_tokenizer(texts, 420)
        self.tokenizer.save_pretrained(root / "tokenizer")

    def job(self, work: Path, **changes: Any) -> Job:
        """A pretraining job of twelve steps, with `changes` to its training."""
        work.mkdir(parents=True, exist_ok=True)
        return Job(
            training=Training.model_validate(TRAINING | changes), seed=3,
            tokenizer=self.root / "tokenizer", corpus=self.corpus / "train.jsonl",
            measure=Measure(suite=CHAINS, data=self.corpus), work=work,
        )  # fmt: skip

    def _rows(self, name: str, generator: str, **parameters: Any) -> Path:
        made = GENERATORS[generator]
        folder = self.root / name
        for split, rows in made.make(5, made.parameters.model_validate(parameters)).items():
            write(folder / f"{split}.jsonl", rows)
        return folder


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The rows and the tokenizer."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def base(world: World) -> Start:
    """A pretrained checkpoint as SFT starts from it."""
    job = world.job(world.root / "base")
    pretraining.run(job)
    marker = jobs.finished(job.work)
    assert marker is not None
    return Start(job.work / jobs.RESULT, marker.facts)
