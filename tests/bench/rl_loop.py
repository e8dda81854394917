"""An agent loop whose responses have a long tail, and whose verdicts take their time.

A tiny model answers in some twenty tokens. To each answer a drawn number of tokens is added, which
the rollout server decodes and the trainer carries but does not learn from; the draws are the same
sequence in every run of a seed. Verdicts are the reward service's own, after `latency` seconds.
"""

import asyncio
import functools
import json
import random
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from posttrain.data.chat import answers
from posttrain.rl.agent import AnswerLoop, _tell, to_verify
from tests.bench.rl_run import ANSWER, tail


class Stage:
    """The responses being generated in this process; verdicts may have to wait for all of them."""

    def __init__(self, places: int) -> None:
        self.places = asyncio.Semaphore(places)
        self._generating = 0
        self._idle = asyncio.Event()

    def begin(self) -> None:
        """A response begins."""
        self._generating += 1
        self._idle.clear()

    def end(self) -> None:
        """It is complete, or lost."""
        self._generating -= 1
        if not self._generating:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until nothing is being generated."""
        await self._idle.wait()


@functools.cache
def _stage(places: int) -> Stage:
    return Stage(places)


@functools.cache
def _draws(seed: int) -> random.Random:
    return random.Random(seed)


class TailedLoop(AnswerLoop):
    """`tail`: middle, spread and most tokens; `places`: verdicts at a time; `in_turn`: verdicts
    begin when nothing is being generated any more."""

    def __init__(
        self, *unnamed: Any, tail: list[float], latency: float, places: int, in_turn: bool,
        seed: int, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(*unnamed, **named)
        self._tail, self._latency, self._in_turn = tail, latency, in_turn
        self._stage, self._draw = _stage(places), _draws(seed)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """One trajectory; the tokens added have mask 0."""
        name = str(kwargs["uid"])
        prompt, response = int(name) if name.isdecimal() else 0, kwargs["session_id"]
        row: dict[str, Any] = json.loads(kwargs["item"])
        await _tell("generating", prompt)
        output, given = await self._generated(sampling_params, row["ids"])
        versions = [output.extra_fields[f"{end}_global_steps"] for end in ("min", "max")]
        await _tell("generated", prompt, response, len(output.response_ids), versions)
        if self._in_turn:
            await self._stage.idle()
        turn = self.chat.parse(given)
        item = to_verify(self.chat, row, given, answers(turn))
        async with self._stage.places:
            await asyncio.sleep(self._latency)
            output.reward_score = await self._score(row, item, prompt, response)
        extra = {"thinking": float(turn.thoughts is not None), "complete": float(turn.complete)}
        output.extra_fields = {**output.extra_fields, "reward_extra_info": extra}
        return output

    async def _generated(
        self, sampling_params: dict[str, Any], ids: list[int]
    ) -> tuple[AgentLoopOutput, list[int]]:
        """The trajectory without its score, and the ids that answer."""
        self._stage.begin()
        try:
            stops = {"stop_token_ids": self.chat.stop_ids, "max_tokens": ANSWER}
            answer = await self._decode(ids, {**sampling_params, **stops})
            extra = tail(self._draw, self._tail[0], self._tail[1], int(self._tail[2]))
            forced = {"ignore_eos": True, "max_tokens": extra}
            added = await self._decode([*ids, *answer.token_ids], {**sampling_params, **forced})
        finally:
            self._stage.end()
        mask = [1] * len(answer.token_ids) + [0] * len(added.token_ids)
        output = AgentLoopOutput(
            prompt_ids=ids, response_ids=[*answer.token_ids, *added.token_ids],
            response_mask=mask, response_logprobs=[*answer.log_probs, *added.log_probs],
            num_turns=2, metrics=AgentLoopMetrics(), extra_fields=dict(answer.extra_fields),
        )  # fmt: skip
        return output, answer.token_ids

    async def _decode(self, ids: list[int], parameters: dict[str, Any]) -> Any:
        return await self.server_manager.generate(
            uuid4().hex, prompt_ids=ids, sampling_params=parameters
        )
