"""An examiner: one loaded checkpoint, measured on suites, answers judged by the reward service."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.charter import Charter
from posttrain.data.chat import ChatFormat
from posttrain.evaluation import (
    adherence,
    conversations,
    degeneration,
    functions,
    identity,
    languages,
    memorisation,
    repetition,
    suites,
    verified,
)
from posttrain.evaluation.harness.measuring import Endpoint, Ran, measure
from posttrain.evaluation.measuring import Row, evaluate, read_rows
from posttrain.evaluation.prompts import Keep, drop
from posttrain.evaluation.replies import Reply, Sampled, replies
from posttrain.evaluation.suites import Adherence, Suite
from posttrain.store import Artifact
from posttrain.training.checkpoint import load_model, load_tokenizer, versions
from rewards.client import BlockingRewardClient
from rewards.schema import Item

PROBES: Mapping[type[Suite], Callable[..., dict[str, float]]] = {
    suites.Degeneration: degeneration.evaluate,
    suites.Memorisation: memorisation.evaluate,
    suites.Functions: functions.evaluate,
    suites.Identity: identity.evaluate,
    suites.LanguageSwitch: languages.evaluate,
    suites.LongConversation: conversations.evaluate,
    suites.Repetition: repetition.evaluate,
}
"""Suites that are scored without the reward service, and what measures them."""


class Examiner:
    """Loads a checkpoint, checked against its record, and measures it.

    `alive` is called whenever the checkpoint has read tokens, so as often as a suite goes on.
    """

    def __init__(
        self, checkpoint: Artifact, rewards_url: str, seed: int,
        alive: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        facts = checkpoint.record.facts
        self._model = load_model(checkpoint.path, facts).eval()
        self._chat = ChatFormat.from_tokenizer(load_tokenizer(checkpoint.path, facts))
        self._rewards_url = rewards_url
        self._seed = seed
        self._model.register_forward_hook(lambda *_: alive())
        self._folder = checkpoint.path / "model"
        self.versions = versions()
        self.harness: Ran | None = None
        """What ran of lm-evaluation-harness, if the last suite was one of its."""

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
                seed=self._seed, judge=self.judge, keep=keep,
            )  # fmt: skip
        if isinstance(suite, suites.Harness):
            return self._harnessed(suite, data, keep)
        return self.measure_rows(suite, read_rows(suite, data), keep)

    def _harnessed(self, suite: suites.Harness, data: Path, keep: Keep) -> dict[str, float]:
        from posttrain.evaluation.harness.endpoint import served

        shown = suite.model_copy(update={"data": f"{suite.inputs()['suite']}.train"})
        train = read_rows(shown, data) if suite.fewshot else []
        context = self._model.config.max_position_embeddings
        with served(self._model, self._chat) as url:
            endpoint = Endpoint(url, self._folder.parent.name, self._folder, context)
            found, self.harness = measure(
                endpoint, suite, read_rows(suite, data), seed=self._seed, train=train, keep=keep
            )
        return found

    def measure_rows(
        self, suite: Suite, rows: Sequence[Row], keep: Keep = drop
    ) -> dict[str, float]:
        """As `measure`, of a suite without a charter and of rows that are at hand."""
        if len(rows) < 2:
            raise ValueError(f"{suite.data} has {len(rows)} rows, too few for a standard error")
        if measured := PROBES.get(type(suite)):
            return measured(self._model, self._chat, suite, rows, seed=self._seed, keep=keep)
        judged = verified.evaluate if isinstance(suite, suites.Verified) else evaluate
        return judged(
            self._model, self._chat, suite, rows,  # type: ignore[arg-type]
            seed=self._seed, judge=self.judge, keep=keep,
        )  # fmt: skip

    def replies(self, how: Sampled, rows: Sequence[Row]) -> list[Reply]:
        """What the checkpoint says to each of `rows`."""
        return replies(self._model, self._chat, how, rows, seed=self._seed)

    def judge(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Verdicts of the reward service."""
        asked = [Item.model_validate(item) for item in items]
        with BlockingRewardClient(self._rewards_url) as client:
            return [verdict.model_dump() for verdict in client.score(asked)]
