"""A scripted endpoint that does all that the release suite asks, and on demand one thing wrong.

Its prompts are rendered and tokenised for real; what it says is looked up in a script, turned into
token ids, and read back from them as a server reads a model.
"""

import json
from collections.abc import Iterator
from typing import Any

from posttrain.serving.reading import Reply, ResponseReader
from tests.release.script import CONTEXT, MODEL, Script

__all__ = ["CONTEXT", "MODEL", "Fake", "Refusal"]


class Refusal(Exception):
    """An answer of status 4xx or 5xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Fake(Script):
    """What the client is given, and what is refused."""

    def replied(self, body: dict[str, Any], ids: list[int]) -> Reply:
        reader = ResponseReader(self.tokenizer, self.markers, thinks=self.opened(body))
        reply = Reply.of([*reader.feed(ids), *reader.finish()])
        thoughts, content, calls = reply.thoughts, reply.content, reply.calls
        if self.fault == "thoughts are read as the answer":
            thoughts, content = None, (thoughts or "") + (content or "") or None
        if self.fault == "cut thoughts are the answer" and thoughts and not content:
            thoughts, content = None, thoughts
        if self.fault == "marks in the thoughts" and thoughts:
            thoughts += "</think>"
        if self.fault == "template leaks" and content:
            content += "<|assistant_end|>"
        if self.fault == "end is read" and ids[-1] == self.end:
            content = (content or "") + "<|assistant_end|>"
        return Reply(thoughts, content, calls)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = self.checked(body)
        count = 1 if self.fault == "one choice" else body.get("n") or 1
        choices, total = [], 0
        for index in range(count):
            ids, finish = self.generated(body, prompt)
            reply = self.replied(body, ids)
            content = reply.content
            if (stopped := self.stopped(body, content)) is not None:
                content, finish = stopped, "stop"
            total += len(ids)
            message = {"role": "assistant", "content": content, "tool_calls": self.told(reply)}
            message["reasoning"] = reply.thoughts
            choices.append(
                {
                    "index": index, "message": message,
                    "finish_reason": self.ended(reply, finish, body),
                    "logprobs": self.logprobs(body, ids), "token_ids": ids,
                }
            )  # fmt: skip
        return {
            "id": f"chat-{next(self.numbers)}", "object": "chat.completion", "model": self.model,
            "choices": choices, "usage": self.usage(prompt, total),
            "prompt_token_ids": prompt[1:] if self.fault == "generated from other ids" else prompt,
        }  # fmt: skip

    def stopped(self, body: dict[str, Any], content: str | None) -> str | None:
        for stop in body.get("stop") or ():
            if content and stop in content and self.fault != "stop ignored":
                return content[: content.index(stop)]
        return None

    def told(self, reply: Reply) -> list[dict[str, Any]]:
        same = self.fault == "calls share an id"
        return [
            {
                "id": "call" if same else f"call-{next(self.numbers)}", "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]  # fmt: skip

    def ended(self, reply: Reply, finish: str, body: dict[str, Any]) -> str:
        if reply.calls and not isinstance(body.get("tool_choice"), dict):
            return "stop" if self.fault == "calls end with stop" else "tool_calls"
        return finish

    def logprobs(self, body: dict[str, Any], ids: list[int]) -> Any:
        if not body.get("logprobs") or self.fault == "no logprobs":
            return None
        value = -2.0 if self.fault == "not the likeliest" else -0.1
        tops = [{"token": "x", "logprob": -0.1}, {"token": "y", "logprob": -2.5}]
        return {"content": [{"token": "x", "logprob": value, "top_logprobs": tops} for _ in ids]}

    def usage(self, prompt: list[int], total: int) -> dict[str, int]:
        extra = 1 if self.fault == "usage does not add up" else 0
        return {
            "prompt_tokens": len(prompt), "completion_tokens": total,
            "total_tokens": len(prompt) + total + extra,
        }  # fmt: skip

    def events(self, body: dict[str, Any]) -> Iterator[str]:
        whole = self.answer(body)
        choice, message = whole["choices"][0], whole["choices"][0]["message"]
        if self.fault == "stream does not stop" and body.get("stop"):
            whole = self.answer({**body, "stop": None})
            choice, message = whole["choices"][0], whole["choices"][0]["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if self.fault == "stream has no role":
            deltas = [{"content": ""}]
        thoughts = [{"reasoning": part} for part in self.cut(message["reasoning"])]
        content = [{"content": part} for part in self.cut(message["content"])]
        deltas += (
            content + thoughts if self.fault == "answer before thoughts" else thoughts + content
        )
        if self.fault == "stream loses a piece":
            deltas = [*deltas[:2], *deltas[3:]]
        for index, call in enumerate(message["tool_calls"]):
            deltas += self.streamed_call(index, call)
        common = {"object": "chat.completion.chunk", "model": self.model}
        for number, delta in enumerate([*deltas, {}]):
            last = number == len(deltas)
            finish = (
                choice["finish_reason"] if last and self.fault != "stream never finishes" else None
            )
            ident = (
                f"{whole['id']}-{number}"
                if self.fault == "events of several answers"
                else whole["id"]
            )
            yield self.event(
                {
                    **common,
                    "id": ident,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                }
            )
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {} if self.fault == "no usage in the stream" else {"usage": whole["usage"]}
            yield self.event({**common, "id": whole["id"], "choices": [], **usage})
        if self.fault != "stream breaks off":
            yield "data: [DONE]\n\n"

    def cut(self, text: str | None) -> list[str]:
        if not text:
            return []
        step = len(text) if self.fault == "all in one piece" else 4
        return [text[at : at + step] for at in range(0, len(text), step)]

    def streamed_call(self, index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        function = call["function"]
        given = function["arguments"]
        if self.fault == "streamed arguments are cut":
            given = given[:-2]
        head = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        tail = [{"index": index, "function": {"arguments": part}} for part in self.cut(given)]
        return [{"tool_calls": [each]} for each in (head, *tail)]

    @staticmethod
    def event(content: dict[str, Any]) -> str:
        return f"data: {json.dumps(content)}\n\n"

    # What is refused.

    def checked(self, body: dict[str, Any]) -> list[int]:
        """The prompt of a valid request."""
        if body.get("model") != self.model and self.fault != "any model is served":
            raise Refusal(404, f"there is no model {body.get('model')!r}")
        if not isinstance(body.get("messages"), list):
            if self.fault == "no messages are answered":
                body["messages"] = [{"role": "user", "content": ""}]
            else:
                raise Refusal(422, "messages is missing")
        if self.fault != "any value is taken":
            for name, least, most in (
                ("temperature", 0, 2),
                ("max_tokens", 1, 9999),
                ("top_p", 0, 1),
            ):
                value = body.get(name, least)
                if not isinstance(value, int | float) or not least <= value <= most:
                    raise Refusal(422, f"{name} is {value!r}")
        choice = body.get("tool_choice")
        names = [tool["function"]["name"] for tool in body.get("tools") or ()]
        if isinstance(choice, dict) and choice["function"]["name"] not in names:
            if self.fault != "undeclared tool can be demanded":
                raise Refusal(400, f"there is no tool {choice['function']['name']}")
            body["tool_choice"] = "none"
        if self.fault == "breaks after many turns" and len(body["messages"]) > 12:
            raise Refusal(500, "list index out of range")
        try:
            prompt = self.rendered(body)
        except ValueError as fault:
            status = 500 if self.fault == "breaks at an unknown role" else 400
            raise Refusal(status, str(fault)) from None
        if len(prompt) > CONTEXT and self.fault != "long prompts are cut":
            raise Refusal(400, f"{len(prompt)} tokens do not fit {CONTEXT}")
        return prompt
