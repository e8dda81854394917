"""One response as it comes about: the policy speaks, tools answer, it speaks again.

Always holds: the ids are those that the policy generated, mask 1, and those that the chat format
writes for the tools' outputs, mask 0 and log-prob 0, in the order in which they came; nothing is
tokenised again. All together are at most `room`. Whatever ended the response, it stands as it is.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import ANSWER_TOOL, AssistantTurn, ToolCall
from posttrain.rl.degeneration import DegenerationConfig, degenerate
from posttrain.rl.tools import Output, Toolbox


class Generated(Protocol):
    """What the rollout server gives for one request, as verl has it."""

    token_ids: list[int]
    log_probs: list[float] | None
    extra_fields: dict[str, Any]


Generate = Callable[[list[int], dict[str, Any]], Awaitable[Generated]]
"""Ids so far and sampling parameters -> what comes next."""


@dataclass(frozen=True)
class Rules:
    """How a response may go: `room` in tokens, `most` turns of the policy with `tools` between."""

    room: int
    most: int = 1
    tools: Toolbox | None = None
    degeneration: DegenerationConfig | None = None


class Dialogue:
    """The response to one `prompt`; `deliberation` is as the prompt says."""

    def __init__(
        self, chat: ChatFormat, prompt: Sequence[int], deliberation: bool, rules: Rules
    ) -> None:
        self._chat, self._prompt, self._deliberation = chat, list(prompt), deliberation
        self._rules = rules
        self.ids: list[int] = []
        self.mask: list[int] = []
        self._log_probs: list[float] = []
        self._outputs: list[Generated] = []
        self._begin = self._answered = 0
        self.turns = 0
        self.degenerate = False
        self.calls: Counter[str] = Counter()

    @property
    def generated(self) -> int:
        """Tokens that the policy generated."""
        return sum(self.mask)

    @property
    def log_probs(self) -> list[float] | None:
        """One for each id, if the server gives any."""
        return self._log_probs if len(self._log_probs) == len(self.ids) else None

    @property
    def said(self) -> list[int]:
        """What a verifier reads: the last turn, which in some formats is the whole response."""
        return self.ids[self._begin :]

    @property
    def extra(self) -> dict[str, Any]:
        """The server's fields, with the range of weight versions over all that was generated."""
        fields = [output.extra_fields for output in self._outputs]
        first = min(each["min_global_steps"] for each in fields)
        last = max(each["max_global_steps"] for each in fields)
        return {**fields[-1], "min_global_steps": first, "max_global_steps": last}

    def turn(self) -> AssistantTurn:
        """The last turn, as parsed by id."""
        return self._chat.parse(self.said)

    async def run(self, generate: Generate, sampling: dict[str, Any]) -> None:
        """Go on to the end; what `generate` and the tools raise passes through.

        It ends with a turn that calls nothing, breaks the format, degenerates, is the last allowed,
        or fills the room; with outputs that leave no room to go on; and with a call of the answer
        tool, which is never carried out: the policy may close that turn, and no more.
        """
        ends, pauses = self._chat.stop_ids, self._chat.call_ends
        while True:
            self.turns += 1
            last = self.turns >= self._rules.most
            await self._speak(generate, sampling, ends if last else ends + pauses)
            calls = () if last or self.degenerate else self._called()
            if any(call.name == ANSWER_TOOL for call in calls):
                if self.ids[-1] in pauses:
                    await self._speak(generate, sampling, ends)
                return
            if not calls or not await self._answer(calls):
                return

    def _called(self) -> Sequence[ToolCall]:
        """The calls that wait for their outputs."""
        turn = self.turn()
        if turn.error and self.ids and self.ids[-1] in self._chat.call_ends:
            # Answers await no output; a turn that gave them lacks its end alone.
            turn = self._chat.parse([*self.said, self._chat.stop_ids[0]])
        return turn.tool_calls[self._answered :]

    async def _speak(self, generate: Generate, sampling: dict[str, Any], stops: list[int]) -> None:
        """Generate up to one of `stops`; in pieces where degeneration is looked for."""
        begin = len(self.ids)
        looked = self._rules.degeneration
        while room := self._rules.room - len(self.ids):
            asked = min(room, looked.every) if looked else room
            more = {"max_tokens": asked, "stop_token_ids": stops}
            output = await generate(self._prompt + self.ids, {**sampling, **more})
            self._take(output)
            if len(output.token_ids) < asked or self.ids[-1] in stops:
                return
            if looked and degenerate(self.ids[begin:], looked):
                self.degenerate = True
                return

    def _take(self, output: Generated) -> None:
        self._outputs.append(output)
        self.ids += output.token_ids
        self.mask += [1] * len(output.token_ids)
        self._log_probs += output.log_probs or ()

    async def _answer(self, calls: Sequence[ToolCall]) -> bool:
        """Have the calls answered; whether the policy has room to go on."""
        assert self._rules.tools is not None
        outputs = [self._sound(each) for each in await self._rules.tools.answer(calls)]
        for call, output in zip(calls, outputs, strict=True):
            known = call.name if call.name in self._rules.tools.names else "unknown"
            self.calls[f"{known}.{'error' if output.error else 'ok'}"] += 1
        texts = [output.text for output in outputs]
        ids = self._chat.outputs(texts, deliberation=self._deliberation)
        if len(self.ids) + len(ids) >= self._rules.room:
            return False
        self.ids += ids
        self.mask += [0] * len(ids)
        self._log_probs += [0.0] * len(ids)
        if self._chat.call_ends:
            self._answered += len(calls)
        else:
            self._begin = len(self.ids)
        return True

    def _sound(self, output: Output) -> Output:
        try:
            self._chat.encode(output.text)
        except ValueError:
            return Output("error: the output spells a control token", error=True)
        return output
