"""The scripted model behind the fake endpoint: prompts in real ids, responses by a script."""

import itertools
import json
import random
from typing import Any

from posttrain.data.apertus import pieces
from posttrain.serving.reading import Markers
from tests.evaluation.tiny_model import chat_format

MODEL = "fake/model@1"
CONTEXT = 2048
LONG = (
    "The sail is a wing that stands upright. Wind which flows around it is bent, and by bending "
    "air the boat gets pushed sideways and a little forward. A deep keel resists being pushed "
    "aside, so what remains is motion ahead. Turning from one tack to another, she climbs."
)
WORDS = ("lake", "river", "stone", "light", "morning", "heron", "quiet", "water", "cold", "reed")


class Script:
    """What is sent to the model and what it says; `fault` names what is done wrong, if anything."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.chat = chat_format()
        self.tokenizer = self.chat.tokenizer
        self.markers = Markers.of(self.chat)
        self.model = MODEL
        self.numbers = itertools.count(1)
        self.control = dict(self.chat.control)
        self.end = self.control["<|assistant_end|>"]

    # What is sent to the model.

    def encode(self, text: str, *, special: bool = False, plain: bool = False) -> list[int]:
        ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=plain)
        if special and self.fault == "begin added to rendered text":
            ids = [1, *ids]
        if special and self.fault == "begin twice before raw text" and "<s>" not in text:
            ids = [1, 1, *ids]
        if self.fault == "end behind raw text":
            ids = [*ids, self.end]
        if self.fault == "a marker is several tokens" and text == "<|tools_prefix|>":
            ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        if self.fault == "two markers share an id" and text == "<|tools_suffix|>":
            ids = [self.control["<|tools_prefix|>"]]
        return ids

    def rendered(self, body: dict[str, Any]) -> list[int]:
        messages = [dict(each) for each in body["messages"]]
        if self.fault == "turns reversed":
            messages = messages[::-1]
        if self.fault == "roles ignored":
            messages = [{**m, "role": "user"} if m["role"] == "assistant" else m for m in messages]
        if self.fault == "tool output dropped":
            messages = [each for each in messages if each["role"] != "tool"]
        if self.fault == "texts in latin":
            for each in messages:
                if isinstance(each.get("content"), str):
                    each["content"] = each["content"].encode("latin", "replace").decode("latin")
        row = {
            "messages": _one_system(messages),
            "tools": [] if self.fault == "tools not shown" else body.get("tools") or [],
            "deliberation": self.thinks(body),
        }
        going_on = bool(body.get("continue_final_message"))
        plain = self.fault != "spelled markers are control"
        ids: list[int] = []
        for piece in pieces(row, continue_assistant=going_on):  # type: ignore[arg-type]
            token = self.control.get(piece.text)
            ids += (
                [token]
                if piece.control and token is not None
                else self.encode(piece.text, plain=plain)
            )
        if self.fault == "another template":
            ids[-1:-1] = self.encode(" ")
        if self.fault == "begin twice":
            ids = [1, *ids]
        if self.fault == "history left open":
            ids = [*(token for token in ids[:-1] if token != self.end), ids[-1]]
        if body.get("add_generation_prompt", True) and not going_on:
            ids.append(self.control["<|assistant_start|>"])
            if self.opened(body):
                ids.append(self.control["<|inner_prefix|>"])
            if self.fault == "end behind the prompt":
                ids.append(self.end)
            if self.fault == "turn opened otherwise":
                ids[-1:] = [self.control["<|user_start|>"], self.control["<|assistant_start|>"]]
        return ids

    def thinks(self, body: dict[str, Any]) -> bool:
        default = self.fault == "thinks unasked"
        return bool((body.get("chat_template_kwargs") or {}).get("enable_thinking", default))

    @staticmethod
    def opened(body: dict[str, Any]) -> bool:
        return bool((body.get("chat_template_kwargs") or {}).get("force_thinking"))

    # What the model says.

    def script(self, body: dict[str, Any]) -> tuple[str, str, list[tuple[str, Any]]]:
        """Thoughts, content and calls."""
        last = body["messages"][-1]
        said = str(last.get("content") or "")
        told = " ".join(str(each.get("content")) for each in body["messages"])
        thoughts = "Seven days make seven metres." if self.thinks(body) else ""
        if self.fault == "thinks though declined":
            thoughts = "Hm."
        if (calls := self.calls(body, said)) is not None:
            beside = '<|tools_prefix|>[{"get_weather"' if self.fault == "call is read too" else ""
            return thoughts, beside, calls
        for asked, answer in (
            ("BANANA", "BANANA"), ("is my dog called", "Quartz."), ("you called", "Wren."),
            ("snail", "On day 8."), ("2 + 2", "4."), ("Explain", LONG),
        ):  # fmt: skip
            if asked in told and self.fault != "heeds nothing":
                return thoughts, answer, []
        if last["role"] == "tool":
            return thoughts, "There is hail, 7 degrees.", []
        return thoughts, self.sampled(body, said), []

    def sampled(self, body: dict[str, Any], said: str) -> str:
        seed: Any = said
        if body.get("temperature") and self.fault != "never samples":
            seed = (
                next(self.numbers) if self.fault == "seed ignored" else f"{body.get('seed')} {said}"
            )
        if self.fault == "not deterministic":
            seed = next(self.numbers)
        words = random.Random(str(seed)).sample(WORDS, 8)
        return " ".join(words).capitalize() + "."

    def calls(self, body: dict[str, Any], said: str) -> list[tuple[str, Any]] | None:
        tools = {t["function"]["name"]: t["function"] for t in body.get("tools") or ()}
        choice = body.get("tool_choice", "auto")
        if self.fault == "calls undeclared tools" and not tools and "weather" in said:
            return [("get_weather", {"city": "Paris"})]
        if not tools or (choice == "none" and self.fault != "none ignored"):
            return None
        if self.fault == "demands ignored" and choice != "auto":
            return None
        if isinstance(choice, dict):
            name = choice["function"]["name"]
            if self.fault == "another tool than named":
                name = next((each for each in tools if each != name), name)
            return [(name, self.arguments(tools[name]))]
        cities = [city for city in ("Bern", "Paris", "Oslo") if city in said]
        if choice == "required":
            return [("get_weather", {"city": "Paris"}), ("get_time", {"city": "Paris"})]
        if body["messages"][-1]["role"] != "user" or not cities or self.fault == "calls no tool":
            return None
        if self.fault == "one call for two":
            cities = cities[:1]
        return [("get_weather", {"city": city}) for city in cities]

    def arguments(self, function: dict[str, Any]) -> Any:
        if self.fault == "arguments against the schema":
            return {"town": "Atlantis"}
        wanted = function["parameters"]["properties"]
        if not wanted:
            return None if self.fault == "null for no arguments" else {}
        return dict.fromkeys(wanted, "Paris")

    def generated(self, body: dict[str, Any], prompt: list[int]) -> tuple[list[int], str]:
        """Ids of the response and why it ended."""
        most = body.get("max_tokens") or 256
        if self.fault == "max_tokens ignored":
            most = 256
        if bias := body.get("logit_bias"):
            forced = int(next(iter(bias)))
            stops = (
                forced in self.chat.stop_ids
                and not (self.fault == "end marker does not end" and forced == self.end)
                and not (self.fault == "end of text does not end" and forced != self.end)
            )
            return ([forced], "stop") if stops else ([forced] * most, "length")
        thoughts, content, calls = self.script(body)
        ids = []
        if thoughts or self.opened(body):
            ids += [] if self.opened(body) else [self.control["<|inner_prefix|>"]]
            ids += [*self.encode(thoughts), self.control["<|inner_suffix|>"]]
        ids += self.encode(content, plain=self.fault != "template leaks")
        if calls:
            array = json.dumps([{name: given} for name, given in calls])
            ids += [self.control["<|tools_prefix|>"], *self.encode(array)]
            ids += [self.control["<|tools_suffix|>"]]
        if not body.get("ignore_eos") and self.fault != "never ends":
            ids.append(self.end)
        else:
            ids += self.encode(" and on" * most)
        if self.fault == "repeats itself":
            ids = [*self.encode(" so" * 30), self.end]
        finish = "stop" if len(ids) <= most else "length"
        return ids[:most], "stop" if self.fault == "cut is called stop" else finish


def _one_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    said = [each["content"] for each in messages if each["role"] == "system"]
    rest = [each for each in messages if each["role"] != "system"]
    return [{"role": "system", "content": "\n".join(said)}, *rest] if said else rest
