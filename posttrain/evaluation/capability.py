"""What a checkpoint can do, prompt by prompt: how many of its attempts a verifier counts as solved.

Always holds: an attempt that got no score is neither solved nor failed; attempts depend on the
checkpoint, the rows and the seed alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import ANSWER_TOOL, answers
from posttrain.evaluation.generation import sample
from posttrain.evaluation.measuring import Attempt, Judge, Row
from posttrain.store import Artifact
from posttrain.training.checkpoint import load_model, load_tokenizer
from rewards.client import BlockingRewardClient
from rewards.schema import Item

ANSWERS_ONLY = "answer"
"""The verifier to which nothing but the answers given counts."""


class Trial(NamedTuple):
    """Of `attempts` at a prompt `unscored` got no score, and `solved` of the others at least 1."""

    attempts: int
    solved: int
    unscored: int


@dataclass(frozen=True)
class Sampling:
    """How prompts are tried."""

    verifier: str
    attempts: int
    thinking: bool
    temperature: float
    max_new_tokens: int


class Auxiliary:
    """A loaded checkpoint, checked against its record, whose attempts the reward service judges."""

    def __init__(self, checkpoint: Artifact, rewards_url: str) -> None:
        facts = checkpoint.record.facts
        self._model = load_model(checkpoint.path, facts).eval()
        self._chat = ChatFormat.from_tokenizer(load_tokenizer(checkpoint.path, facts))
        self._url = rewards_url

    def trials(self, rows: Sequence[Row], how: Sampling, seed: int) -> list[Trial]:
        """A trial for each of `rows`."""
        return trials(self._model, self._chat, rows, how, seed=seed, judge=self._judge)

    def _judge(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        asked = [Item.model_validate(item) for item in items]
        with BlockingRewardClient(self._url) as client:
            return [verdict.model_dump() for verdict in client.score(asked)]


def trials(
    model: PreTrainedModel,
    chat: ChatFormat,
    rows: Sequence[Row],
    how: Sampling,
    *,
    seed: int,
    judge: Judge,
) -> list[Trial]:
    """A trial for each of `rows`, which have `messages`, `tools`, `gold` and perhaps `parameters`.

    ValueError if a prompt and its response do not fit into the model's context.
    """
    tried = [{**row, "deliberation": how.thinking} for row in rows for _ in range(how.attempts)]
    prompts = [chat.prompt(row).ids for row in tried]  # type: ignore[arg-type]
    _fits(model, prompts, how)
    responses = sample(
        model, prompts, max_new_tokens=how.max_new_tokens, temperature=how.temperature,
        stop_ids=chat.stop_ids, seed=seed,
    )  # fmt: skip
    pairs = zip(tried, responses, strict=True)
    items = [_item(chat, row, ids, how, str(n)) for n, (row, ids) in enumerate(pairs)]
    verdicts = {verdict["id"]: verdict for verdict in judge(items)}
    scores = [_score(verdicts.get(item["id"], {})) for item in items]
    return list(_counted(scores, how.attempts))


def _fits(model: PreTrainedModel, prompts: Sequence[Sequence[int]], how: Sampling) -> None:
    longest = max(map(len, prompts), default=0) + how.max_new_tokens
    if longest > (most := model.config.max_position_embeddings):
        raise ValueError(
            f"a prompt and its response take {longest:,} tokens, the model's context has {most:,}; "
            "leave long prompts out, or lower max_new_tokens"
        )


def _item(
    chat: ChatFormat, row: Mapping[str, Any], ids: Sequence[int], how: Sampling, name: str
) -> dict[str, Any]:
    """What to verify: the answers where they alone count, else the text and answers given."""
    attempt = Attempt(row, chat.parse(ids), len(ids))
    asked = {
        "id": name, "verifier": how.verifier, "gold": row["gold"],
        "parameters": row.get("parameters") or {},
    }  # fmt: skip
    if how.verifier == ANSWERS_ONLY:
        return asked | {"answers": attempt.answers or []}
    offered = any(tool["name"] == ANSWER_TOOL for tool in row["tools"])
    return asked | {
        "response": chat.spoken(ids),
        "answers": answers(attempt.turn) or [] if offered else None,
    }


def _score(verdict: Mapping[str, Any]) -> float | None:
    return float(verdict["score"]) if verdict.get("status") == "scored" else None


def _counted(scores: Sequence[float | None], attempts: int) -> Iterator[Trial]:
    for start in range(0, len(scores), attempts):
        of_prompt = scores[start : start + attempts]
        solved = sum(score is not None and score >= 1 for score in of_prompt)
        yield Trial(attempts, solved, of_prompt.count(None))
