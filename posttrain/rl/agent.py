"""verl agent loop: one prompt's ids in, one generation, one verdict, one scored trajectory out.

Tokens are canonical: the prompt comes as ids, the response is parsed by id, and nothing is
tokenised again. A reward is what the service scored; whatever else happens (service down, verdict
failed or abstained) raises, so that verl drops the sample's whole group. Nothing here guesses.
"""

import functools
import json
from typing import Any
from uuid import uuid4

from transformers import PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from posttrain.data.chat import ChatFormat, answers
from rewards.client import RewardClient
from rewards.schema import Item


class RewardFaultError(RuntimeError):
    """The reward service gave no score: a fault of ours, never of the response."""


_clients: dict[str, RewardClient] = {}
"""One per service for the life of this process: its connections are reused."""


async def _client(url: str) -> RewardClient:
    if url not in _clients:
        _clients[url] = await RewardClient(url).__aenter__()
    return _clients[url]


@functools.cache
def _chat(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    return ChatFormat.from_tokenizer(tokenizer)


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
        row = json.loads(kwargs["item"])
        output = await self.server_manager.generate(
            uuid4().hex,
            prompt_ids=row["ids"],
            sampling_params={**sampling_params, "stop_token_ids": self.chat.stop_ids},
        )
        turn = self.chat.parse(output.token_ids)
        score = await self._score(row, answers(turn))
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

    async def _score(self, row: dict[str, Any], given: list[str] | None) -> float:
        """The service's score; answers not given well-formed are an empty list."""
        item = Item(
            id=uuid4().hex, verifier=row["verifier"], answers=given or [], gold=row["gold"],
            parameters=row["parameters"],
        )  # fmt: skip
        client = await _client(self.rewards)
        [verdict] = await client.score([item])
        if verdict.score is None:
            raise RewardFaultError(
                f"source {row['source']}, verifier {verdict.verifier}: {verdict.status} "
                f"({verdict.reason}): {verdict.detail}"
            )
        return verdict.score
