"""An examiner: one loaded checkpoint, measured on suites, answers judged by the reward service."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.charter import Charter
from posttrain.data.chat import ChatFormat
from posttrain.evaluation import adherence, degeneration, memorisation
from posttrain.evaluation.measuring import evaluate, read_rows
from posttrain.evaluation.prompts import Keep, drop
from posttrain.evaluation.suites import Adherence, Degeneration, Memorisation, Suite
from posttrain.store import Artifact
from posttrain.training.checkpoint import load_model, load_tokenizer, versions
from rewards.client import BlockingRewardClient
from rewards.schema import Item


class Examiner:
    """Loads a checkpoint, checked against its record, and measures it."""

    def __init__(self, checkpoint: Artifact, rewards_url: str, seed: int) -> None:
        facts = checkpoint.record.facts
        self._model = load_model(checkpoint.path, facts).eval()
        self._chat = ChatFormat.from_tokenizer(load_tokenizer(checkpoint.path, facts))
        self._rewards_url = rewards_url
        self._seed = seed
        self.versions = versions()

    def measure(
        self, suite: Suite, data: Path, keep: Keep = drop, charter: Charter | None = None
    ) -> dict[str, float]:
        """Figures of the checkpoint on `suite`, whose rows lie in the data artifact `data`.

        `charter` is that of a suite that has one. The scores of each prompt go to `keep`.
        """
        if isinstance(suite, Adherence):
            assert charter is not None
            return adherence.evaluate(
                self._model, self._chat, suite, read_rows(suite, data), charter,
                seed=self._seed, judge=self._judge, keep=keep,
            )  # fmt: skip
        if isinstance(suite, Degeneration):
            rows = read_rows(suite, data)
            return degeneration.evaluate(
                self._model, self._chat, suite, rows, seed=self._seed, keep=keep
            )
        if isinstance(suite, Memorisation):
            rows = read_rows(suite, data)
            return memorisation.evaluate(
                self._model, self._chat, suite, rows, seed=self._seed, keep=keep
            )
        return evaluate(
            self._model, self._chat, suite, read_rows(suite, data),
            seed=self._seed, judge=self._judge, keep=keep,
        )  # fmt: skip

    def _judge(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        asked = [Item.model_validate(item) for item in items]
        with BlockingRewardClient(self._rewards_url) as client:
            return [verdict.model_dump() for verdict in client.score(asked)]
