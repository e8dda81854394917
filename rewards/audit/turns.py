"""Turns as a model writes them, for probes: deliberation, tool blocks and what goes wrong there."""

import json

from pydantic import JsonValue

TOOL = "display_answers"


def deliberated(text: str) -> str:
    """A deliberation."""
    return f"<|inner_prefix|>{text}<|inner_suffix|>"


def block(content: str) -> str:
    """A tool block around raw content."""
    return f"<|tools_prefix|>{content}<|tools_suffix|>"


def called(arguments: JsonValue, name: str = TOOL) -> str:
    """A tool block with one call."""
    return block(json.dumps([{name: arguments}]))


def answered(*answers: JsonValue) -> str:
    """A well-formed call of the answer tool."""
    return called({"answers": list(answers)})
