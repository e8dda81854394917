"""A second renderer of the Apertus format, written from its description alone (facts.md 3).

It shares no code with `posttrain.data` but the tokenizer: rows are read, laid out and masked here
from scratch, straight from token ids to a list of (id, target) pairs.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Pairs = list[tuple[int, int]]


class Sheet:
    """Ids and targets as they are written, one after the other."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.pairs = tokenizer, Pairs()
        self._held, self._held_counts = "", 0

    def mark(self, name: str, counts: int) -> None:
        """A control token."""
        self._flush()
        self.pairs.append((self._tokenizer.convert_tokens_to_ids(name), counts))

    def say(self, text: str, counts: int) -> None:
        """A text; texts that touch are tokenised as one."""
        assert not self._held or self._held_counts == counts
        self._held, self._held_counts = self._held + text, counts

    def end(self) -> Pairs:
        """All of it."""
        self._flush()
        return self.pairs

    def _flush(self) -> None:
        for index in self._tokenizer.encode(self._held, add_special_tokens=False):
            self.pairs.append((index, self._held_counts))
        self._held = ""


def pairs(tokenizer: Any, row: Mapping[str, Any]) -> Pairs:
    """The row, closed as in training unless its last turn waits for outputs of tools."""
    sheet, messages = Sheet(tokenizer), list(row["messages"])
    sheet.mark("<s>", 0)
    for role in ("system", "developer"):
        told = messages.pop(0)["content"] if messages and messages[0]["role"] == role else ""
        sheet.mark(f"<|{role}_start|>", 0)
        sheet.say(told if role == "system" else capabilities(row, told), 0)
        sheet.mark(f"<|{role}_end|>", 0)
    while messages:
        if messages[0]["role"] == "user":
            user(sheet, messages.pop(0)["content"])
            continue
        turn = []
        while messages and messages[0]["role"] in ("assistant", "tool"):
            turn.append(messages.pop(0))
        assistant(sheet, turn, last=not messages)
    return sheet.end()


def user(sheet: Sheet, content: Any) -> None:
    """Texts, and a placeholder for each image or sound."""
    sheet.mark("<|user_start|>", 0)
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            sheet.say(part["text"], 0)
        else:
            sheet.mark({"image": "<|image|>", "audio": "<|audio|>"}[part["type"]], 0)
    sheet.mark("<|user_end|>", 0)


def assistant(sheet: Sheet, turn: Sequence[Mapping[str, Any]], *, last: bool) -> None:
    """One turn, of the assistant's messages and those of its tools.

    Tools may be called within the deliberation: it lasts until something is said, or the answer
    tool alone is called, which nobody waits for.
    """
    sheet.mark("<|assistant_start|>", 0)
    waiting: list[str] = []
    thinks = waits = False
    for message in turn:
        if message["role"] == "tool":
            waiting.append(message["content"])
            waits = False
            continue
        outputs(sheet, waiting)
        waiting.clear()
        if message.get("thoughts") is not None:
            if not thinks:
                sheet.mark("<|inner_prefix|>", 1)
            sheet.say(message["thoughts"], 1)
            thinks = True
        if calls := message.get("tool_calls"):
            waits = [call["name"] for call in calls] != ["display_answers"]
            if thinks and not waits:
                thinks = closed(sheet)
            sheet.mark("<|tools_prefix|>", 1)
            sheet.say(f"[{', '.join(map(called, calls))}]", 1)
            sheet.mark("<|tools_suffix|>", 1)
        if given := message.get("tool_outputs"):
            outputs(sheet, given)
            waits = False
        if said := message.get("content"):
            thinks = closed(sheet) if thinks else False
            sheet.say(said, 1)
            waits = False
    outputs(sheet, waiting)
    if last and waits:
        return
    if thinks:
        closed(sheet)
    sheet.mark("<|assistant_end|>", 1)


def closed(sheet: Sheet) -> bool:
    """The deliberation ends; whether it still lasts."""
    sheet.mark("<|inner_suffix|>", 1)
    return False


def called(call: Mapping[str, Any]) -> str:
    """A call as one object: the name and its arguments."""
    given = call["arguments"]
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f'{{"{call["name"]}": {text}}}'


def outputs(sheet: Sheet, given: Sequence[str]) -> None:
    """What tools gave back, never a target, its marks included."""
    if given:
        sheet.mark("<|tool_output_start|>", 0)
        sheet.say(", ".join(given), 0)
        sheet.mark("<|tool_output_end|>", 0)


def capabilities(row: Mapping[str, Any], told: str) -> str:
    """The developer's block: whether to deliberate, the tools, and what is said."""
    lines = [f"Deliberation: {'enabled' if row['deliberation'] else 'disabled'}"]
    if not row["tools"]:
        lines.append("Tool Capabilities: disabled")
    else:
        lines.append("Tool Capabilities:")
        lines += [declared(tool) for tool in row["tools"]]
    return "\n".join([*lines, told] if told else lines)


def declared(tool: Mapping[str, Any]) -> str:
    """A tool as a TypeScript type."""
    schema = tool["parameters"]
    fields = []
    for name, spec in schema["properties"].items():
        doc = f"// {spec['description']}\n" if "description" in spec else ""
        mark = "" if name in schema.get("required", []) else "?"
        given = json.dumps(spec.get("default"), ensure_ascii=False)
        default = f", // default: {given}" if "default" in spec else ""
        fields.append(f"{doc}{name}{mark}: {kind(spec)}{default}")
    inner = "(_: {\n" + ",\n".join(fields) + "\n})" if fields else "()"
    return f"// {tool['description']}\ntype {tool['name']} = {inner} => any;"


def kind(spec: Mapping[str, Any]) -> str:
    """The TypeScript name of a type."""
    if spec["type"] == "array":
        return f"{kind(spec['items'])}[]"
    return {"integer": "number"}.get(spec["type"], str(spec["type"]))
