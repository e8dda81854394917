"""verl agent loop: one prompt's ids in, one generation, one verdict, one scored trajectory out.

Tokens are canonical: the prompt comes as ids, the response is parsed by id, and nothing is
tokenised again. Verifiers get the answers given through the tool where that is on offer, and all
but `answer` the text, its control tokens included. A reward is what the service scored; whatever
else happens (service down, verdict failed or abstained) is counted and raises, so that verl drops
the sample's whole group. Nothing here guesses. The runner has each sign of a response's life in
its ledger before the next begins.
"""

import asyncio
import functools
import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import ray
from transformers import PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from posttrain.data.chat import ChatFormat, answers
from posttrain.rl.tally import RUNNER
from rewards.client import RewardClient
from rewards.schema import Item

ANSWERS_ONLY = "answer"
"""The verifier to which nothing but answers given through the tool counts."""


PATIENCE = 60.0
"""Seconds for the runner to take in a sign; it answers within milliseconds while it lives."""


class RewardFaultError(RuntimeError):
    """The reward service gave no score: a fault of ours, never of the response."""


_clients: dict[str, RewardClient] = {}
"""One per service for the life of this process: its connections are reused."""


async def _client(url: str) -> RewardClient:
    if url not in _clients:
        _clients[url] = await RewardClient(url).__aenter__()
    return _clients[url]


@functools.cache
def _runner() -> Any:
    return ray.get_actor(RUNNER)


async def _tell(sign: str, *told: Any) -> None:
    """Have the runner take in a sign; TimeoutError if it does not in a minute."""
    await asyncio.wait_for(getattr(_runner(), sign).remote(*told), PATIENCE)


@functools.cache
def _chat(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    return ChatFormat.from_tokenizer(tokenizer)


def to_verify(
    chat: ChatFormat, row: Mapping[str, Any], ids: list[int], given: list[str] | None
) -> Item:
    """What a verifier is asked of a response; answers not given well-formed are an empty list."""
    asked = {key: row[key] for key in ("verifier", "gold", "parameters")}
    if row["verifier"] == ANSWERS_ONLY:
        return Item(id=uuid4().hex, answers=given or [], **asked)
    counting = (given or []) if row["answer_tool"] else None
    return Item(id=uuid4().hex, answers=counting, response=chat.spoken(ids), **asked)


class AnswerLoop(AgentLoopBase):  # type: ignore[misc]  # verl ships no types
    """Single turn; calling the answer tool or ending the turn ends it (facts.md 2.6)."""

    def __init__(
        self, server_manager: Any, tokenizer: PreTrainedTokenizerBase, rewards: str, **unused: Any
    ) -> None:
        # Not verl's __init__: it sets up chat-template tokenisation for every trajectory.
        self.server_manager = server_manager
        self.rewards = rewards
        self.chat = _chat(tokenizer)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Generate for `kwargs["item"]` (a frozen prompt's JSON) and have it scored.

        RewardFaultError if there is no score.
        """
        row, prompt, response = json.loads(kwargs["item"]), int(kwargs["uid"]), kwargs["session_id"]
        await _tell("generating", prompt)
        output = await self.server_manager.generate(
            uuid4().hex,
            prompt_ids=row["ids"],
            sampling_params={**sampling_params, "stop_token_ids": self.chat.stop_ids},
        )
        versions = [output.extra_fields[f"{end}_global_steps"] for end in ("min", "max")]
        await _tell("generated", prompt, response, len(output.token_ids), versions)
        turn = self.chat.parse(output.token_ids)
        item = to_verify(self.chat, row, output.token_ids, answers(turn))
        score = await self._score(row, item, prompt, response)
        extra = {
            "thinking": float(turn.thoughts is not None),
            "complete": float(turn.complete),
        }
        return AgentLoopOutput(
            prompt_ids=row["ids"],
            response_ids=output.token_ids,
            response_mask=[1] * len(output.token_ids),
            response_logprobs=output.log_probs,
            reward_score=score,
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields={**output.extra_fields, "reward_extra_info": extra},
        )

    async def _score(self, row: dict[str, Any], item: Item, prompt: int, response: int) -> float:
        """The service's score."""
        client = await _client(self.rewards)
        asked = time.monotonic()
        [verdict] = await client.score([item])
        seconds = round(time.monotonic() - asked, 4)
        said = (verdict.status, verdict.reason or "", verdict.score)
        await _tell("scored", prompt, response, row["source"], *said, seconds)
        if verdict.score is None:
            raise RewardFaultError(
                f"source {row['source']}, verifier {verdict.verifier}: {verdict.status} "
                f"({verdict.reason}): {verdict.detail}"
            )
        return verdict.score
