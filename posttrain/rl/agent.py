"""verl agent loop: one prompt's ids in, one response, one verdict, one scored trajectory out.

Tokens are canonical: the prompt comes as ids, the response is parsed by id, and nothing is
tokenised again. Verifiers get the answers given through the tool where that is on offer, and all
but `answer` the text, its control tokens included. A reward is what the service scored; whatever
else happens (a service down, verdict failed or abstained) is counted and raises, so that verl drops
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
from posttrain.rl.degeneration import DegenerationConfig
from posttrain.rl.dialogue import Dialogue, Generated, Rules
from posttrain.rl.tally import RUNNER
from posttrain.rl.tools import Toolbox, ToolFaultError, TurnsConfig
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


@functools.cache
def _toolbox(turns: TurnsConfig, sandbox: str) -> Toolbox:
    """One for the life of this process, like its connections."""
    return Toolbox(turns.tools, sandbox)


def behaviour(dialogue: Dialogue, rules: Rules) -> dict[str, float]:
    """Figures of a response under rules that not every run has."""
    found: dict[str, float] = {}
    if rules.tools:
        told = len(dialogue.ids) - dialogue.generated
        found |= {"turns": float(dialogue.turns), "output_tokens": float(told)}
    if rules.degeneration:
        found |= {"degenerate": float(dialogue.degenerate)}
    return found


class AnswerLoop(AgentLoopBase):  # type: ignore[misc]  # verl ships no types
    """The rules of `posttrain.rl.dialogue`; `turns` and `degeneration` are their configs as JSON,
    `sandbox` is its URL. `room` bounds a response, in tokens."""

    def __init__(
        self, server_manager: Any, tokenizer: PreTrainedTokenizerBase, rewards: str, room: int,
        turns: str = "", degeneration: str = "", sandbox: str = "", **unused: Any,
    ) -> None:  # fmt: skip
        # Not verl's __init__: it sets up chat-template tokenisation for every trajectory.
        self.server_manager = server_manager
        self.rewards = rewards
        self.chat = _chat(tokenizer)
        looked = DegenerationConfig.model_validate_json(degeneration) if degeneration else None
        self.rules = Rules(room, degeneration=looked)
        if turns:
            asked = TurnsConfig.model_validate_json(turns)
            self.rules = Rules(room, asked.most, _toolbox(asked, sandbox), looked)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Generate for `kwargs["item"]` (a frozen prompt's JSON) and have it scored.

        RewardFaultError if there is no score, ToolFaultError if a tool's service does not answer.
        """
        row, prompt, response = json.loads(kwargs["item"]), int(kwargs["uid"]), kwargs["session_id"]
        await _tell("generating", prompt)
        dialogue = Dialogue(self.chat, row["ids"], row["deliberation"], self.rules)
        await self._generate(dialogue, sampling_params, row["source"])
        fields = dialogue.extra
        versions = [fields[f"{end}_global_steps"] for end in ("min", "max")]
        await _tell("generated", prompt, response, dialogue.generated, versions)
        turn = dialogue.turn()
        item = to_verify(self.chat, row, dialogue.said, answers(turn))
        score = await self._score(row, item, prompt, response)
        extra = {
            "thinking": float(turn.thoughts is not None),
            "complete": float(turn.complete),
            **behaviour(dialogue, self.rules),
        }
        return AgentLoopOutput(
            prompt_ids=row["ids"],
            response_ids=dialogue.ids,
            response_mask=dialogue.mask,
            response_logprobs=dialogue.log_probs,
            reward_score=score,
            num_turns=2 * dialogue.turns,
            metrics=AgentLoopMetrics(),
            extra_fields={**fields, "reward_extra_info": extra},
        )

    async def _generate(self, dialogue: Dialogue, sampling: dict[str, Any], source: str) -> None:
        """Run the dialogue; what was called and cut is counted, whatever ends it."""
        session = uuid4().hex  # All turns go to one server, which remembers the earlier ones.

        async def generate(ids: list[int], parameters: dict[str, Any]) -> Generated:
            output: Generated = await self.server_manager.generate(
                session, prompt_ids=ids, sampling_params=parameters
            )
            return output

        faults = 0
        try:
            await dialogue.run(generate, sampling)
        except ToolFaultError:
            faults = 1
            raise
        finally:
            counts = {f"calls.{source}.{name}": count for name, count in dialogue.calls.items()}
            counts |= {f"tool_faults.{source}": faults, f"degenerate.{source}": dialogue.degenerate}
            if any(counts.values()):
                await _tell("counted", {name: int(n) for name, n in counts.items() if n})

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
