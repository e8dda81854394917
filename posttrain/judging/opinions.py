"""Opinions on responses from a verifier of the reward service; a fault is never one."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from posttrain.charter import Charter, asking
from posttrain.charter.asking import RULES
from posttrain.data.turn import AssistantTurn, answers
from posttrain.judging.config import JudgeConfig
from rewards.rules import Rule
from rewards.schema import Item, Verdict

_ANSWERS = "answer"
"""The verifier to which nothing but answers given through the tool counts."""

_READER = "judge"
"""The verifier that reads the prompt, with a charter or without."""


@dataclass(frozen=True)
class Opinion:
    """What was found of one response.

    `score` is None where the judge failed, and `fault` then says why. `article` is the first of
    those that score lowest, where the verdict has parts, and `grade` is the parts' mean, which
    tells more apart than a score that wants them all.
    """

    score: float | None
    feedback: str = ""
    article: str = ""
    fault: str = ""
    grade: float | None = None


class Judge(Protocol):
    """Opinions on responses, in order: `rows` are their prompts, `turns` what was said."""

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        """One opinion for each response, within a bounded time."""


class ServiceJudge:
    """Asks the reward service at `url`; verdicts are waited for `patience` seconds.

    `fresh`: none is one that the service remembers.
    """

    def __init__(
        self, config: JudgeConfig, charter: Charter | None, url: str, patience: float,
        *, fresh: bool = False,
    ) -> None:  # fmt: skip
        self._config, self._charter = config, charter
        self._url, self._patience, self._fresh = url, patience, fresh
        self._asked = _asked(config, charter)

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        """As `Judge`; items without a verdict in time are faults."""
        items = [
            self._item(str(index), row, turn)
            for index, (row, turn) in enumerate(zip(rows, turns, strict=True))
        ]
        return [opinion(verdict) for verdict in asyncio.run(self._score(items))]

    async def _score(self, items: Sequence[Item]) -> list[Verdict]:
        from rewards.client import RewardClient  # Planning imports this module, and need not wait.

        async with RewardClient(self._url, patience=self._patience, fresh=self._fresh) as client:
            return await client.score(items)

    def rules(self) -> list[Rule]:
        """The rules it judges by, if it is the rule judge."""
        if self._charter is None or self._config.verifier != RULES:
            return []
        chosen = self._charter.chosen(self._config.articles)
        return [article.rule for article in chosen if article.rule is not None]

    def identity(self) -> dict[str, str]:
        """Verifier, the digest of its version, and the charter's, as they go into an archive.

        RuntimeError if the service does not serve the verifier.
        """
        served = asyncio.run(_served(self._url))
        if self._config.verifier not in served:
            raise RuntimeError(
                f"the reward service at {self._url} does not serve {self._config.verifier}, but "
                f"{', '.join(sorted(served)) or 'nothing'}: add it to services.rewards.verifiers"
            )
        told = {"judge": self._config.verifier, "judge_sha256": served[self._config.verifier]}
        return told | ({"charter_sha256": self._charter.sha256} if self._charter else {})

    def _item(self, name: str, row: Mapping[str, Any], turn: AssistantTurn) -> Item:
        parameters = {**row.get("parameters", {}), **self._asked}
        given = answers(turn)
        if self._config.verifier == _ANSWERS:
            return Item(
                id=name, verifier=_ANSWERS, answers=given or [], gold=row.get("gold"),
                parameters=parameters,
            )  # fmt: skip
        if self._charter is not None and self._config.verifier != RULES:
            parameters |= asking.reading(self._charter, prompt_text(row))
        reads = self._config.verifier == _READER
        if reads:
            parameters["prompt"] = prompt_text(row)
        return Item(
            id=name, verifier=self._config.verifier, response=turn.content or "", answers=given,
            gold=None if self._charter or reads else row.get("gold"), parameters=parameters,
        )  # fmt: skip


async def _served(url: str) -> dict[str, str]:
    """Verifier -> digest of its version; empty if nobody answers."""
    from rewards.client import RewardClient

    async with RewardClient(url) as client:
        [(status, found)] = await client.ask("/v1/verifiers")
    return {each["name"]: each["digest"] for each in found["verifiers"]} if status == 200 else {}


def _asked(config: JudgeConfig, charter: Charter | None) -> dict[str, Any]:
    """The parameters that all requests have; ValueError if an article asked about has no rule."""
    if charter is None or config.verifier != RULES:
        return dict(config.parameters)
    return {**config.parameters, **asking.rules(charter, config.articles)}


def prompt_text(row: Mapping[str, Any]) -> str:
    """The last message of `row`, a user's; ValueError if it is another's."""
    last = row["messages"][-1]
    if last["role"] != "user":
        raise ValueError(f"a prompt ends with a user's message, not the {last['role']}'s")
    return cast(str, last["content"])


def opinion(verdict: Verdict) -> Opinion:
    """What a verdict says; nothing but a score is one."""
    if verdict.score is None:
        return Opinion(None, fault=f"{verdict.status} ({verdict.reason}): {verdict.detail}")
    parts = verdict.parts or {}
    lowest = min(parts, key=lambda name: parts[name]) if parts else ""
    grade = statistics.fmean(parts.values()) if parts else verdict.score
    return Opinion(verdict.score, (verdict.feedback or "").strip(), lowest, grade=grade)
