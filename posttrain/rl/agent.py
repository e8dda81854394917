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


class RewardFaultError(RuntimeError):
    """The reward service gave no score: a fault of ours, never of the response."""


@functools.cache
def _chat(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    return ChatFormat.from_tokenizer(tokenizer)


class AnswerLoop(AgentLoopBase):  # type: ignore[misc]  # verl ships no types
    """Single turn; calling the answer tool or ending the turn ends it (facts.md 2.6)."""

    def __init__(
        self, server_manager: Any, tokenizer: PreTrainedTokenizerBase, rewards: str, **unused: Any
    ) -> None:
        # Not verl's __init__: it builds a chat-template tokenizer per trajectory.
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
        score = await self._score(row, output.token_ids, answers(turn))
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

    async def _score(self, row: dict[str, Any], ids: list[int], given: list[str] | None) -> float:
        import aiohttp

        item = {
            "id": uuid4().hex,
            "verifier": row["verifier"],
            "response": self.chat.tokenizer.decode(ids),
            "answers": given,
            "gold": row["gold"],
            "parameters": row["parameters"],
        }
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{self.rewards}/v1/score", json={"items": [item]}) as reply:
                verdict = (await reply.json())["verdicts"][0]
        if verdict["status"] != "scored":
            raise RewardFaultError(f"{row['source']}: verdict {verdict['status']}: {verdict['reason']}")
        return float(verdict["score"])
