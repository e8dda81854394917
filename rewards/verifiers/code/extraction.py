"""The program in a response: the last fenced block of the wanted language, outside deliberation.

Fences as in CommonMark: three or more of ` or ~, closed by as many. Rules:
    a tag names a language by one of its usual names, in any case; a block without a tag is of any
    if there is a tagged block of the language, untagged ones do not count
    a last block that is not closed was cut off: then there is no program, whatever came before it
    without any fence there is no program either
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rewards.turn import read_turn

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "python": ("python", "py", "python3", "python2", "py3", "cpython", "pypy", "pypy3"),
        "bash": ("bash", "sh", "shell", "zsh", "console"),
        "javascript": ("javascript", "js", "node", "nodejs", "mjs", "cjs"),
        "c": ("c", "c99", "c11", "c17", "h"),
        "cpp": ("cpp", "c++", "cc", "cxx", "cpp17", "c++17", "cpp20", "c++20", "hpp"),
    }
)
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)$")


class NoProgram(Exception):
    """The response gives no program; `reason` is `no_code` or `truncated`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass
class _Block:
    tag: str
    lines: list[str]
    closed: bool = False


def program(response: str, language: str) -> str:
    """The program that a response gives; NoProgram if it gives none."""
    blocks = list(_blocks(read_turn(response).text))
    names = ALIASES.get(language, (language,))
    tagged = [block for block in blocks if block.tag in names]
    chosen = tagged or [block for block in blocks if not block.tag]
    if not chosen:
        raise NoProgram("no_code", f"no fenced block of {language} code")
    if not chosen[-1].closed:
        raise NoProgram("truncated", "the last code block is not closed")
    return "\n".join(chosen[-1].lines) + "\n"


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    marks, indent = "", ""
    for line in text.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.match(line)
        if block is None:
            if fence and "`" not in fence["info"]:
                marks, indent = fence["marks"], fence["indent"]
                block = _Block(_tag(fence["info"]), [])
        elif fence and fence["marks"].startswith(marks) and not fence["info"].strip():
            block.closed = True
            yield block
            block = None
        else:
            block.lines.append(line.removeprefix(indent))
    if block is not None:
        yield block


def _tag(info: str) -> str:
    """The first word of what stands behind a fence, e.g. `python` of `{.python title="x"}`."""
    words = re.split(r"[\s,{}]+", info.strip().lower())
    return next((word.lstrip(".") for word in words if word), "")
