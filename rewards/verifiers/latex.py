"""Mathematical answers as text: where they stand in a response, and one spelling for each.

Only spelling is changed here, never a value. What these rules leave alone, Math-Verify parses.
"""

import re
import unicodedata
from itertools import pairwise

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN = re.compile(r"[\s$,;.&]*(?:\\[()\[\]])?[\s$,;]*(?:and|or)?[\s$,;]*(?:\\[()\[\]])?[\s$]*")
_SUPER = {ord(c): str(n) for n, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {ord("⁻"): "-"}
_SUB = {ord(c): str(n) for n, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_SIGNS = {
    "−": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
    "∅": r"\emptyset ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ",
    "∈": r"\in ", "±": r"\pm ", "°": r"^\circ ", "。": ".", "€": "", "£": "", "¥": "",
}  # fmt: skip
_SPACE = r"(?:\\[,!:; ]|~|\{,\}|,\\!|,| )"
_RULES = [
    (re.compile(rf"(?<![\d.,(\[{{])\d{{1,3}}(?:{_SPACE}\d{{3}})+(?![\d,])"), None),
    (re.compile(r"√\s*(\d+|[A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"(?:√|(?<![A-Za-z\\])sqrt)\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![A-Za-z\\])exp\s*\(([^()]*)\)"), r"e^{\1}"),
    (re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"\\(?:mathrm|text|operatorname)\s*\{\s*([ei])\s*\}"), r"\1"),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\varnothing(?![a-zA-Z])"), r"\\emptyset"),
    (re.compile(r"\*\*(.+?)\*\*"), r"\1"),
    (re.compile(r"(?<=[\w)}])\s*\*\s*(?=[\w(\\])"), r" \\cdot "),
    (re.compile(r"\+\s*-"), "-"),
    (re.compile(r"(?<=\d)i(?![A-Za-z])"), " i"),
    (re.compile(r"\s*([+\-])\s*"), r"\1"),
]
_SCIENTIFIC = re.compile(r"([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d{1,4})")


def boxed(text: str) -> str | None:
    """The content of the last closed box of `text`; None if there is none.

    Boxes that stand next to each other as one list are joined by commas; equal ones count once.
    """
    boxes = _boxes(text)
    if not boxes:
        return None
    contents = [boxes[-1][2]]
    for (_, end, content), (start, _, _) in reversed(list(pairwise(boxes))):
        if not _BETWEEN.fullmatch(text, end, start):
            break
        contents.insert(0, content)
    return ", ".join(dict.fromkeys(contents))


def _boxes(text: str) -> list[tuple[int, int, str]]:
    """(start, end, content) of each closed box; of nested ones the innermost last."""
    found, at = [], 0
    while (opening := _BOX.search(text, at)) is not None:
        end = _closing(text, opening.end())
        if end is None:
            at = opening.end()
            continue
        content = text[opening.end() : end - 1]
        inner = boxed(content)
        found.append((opening.start(), end, content if inner is None else inner))
        at = end
    return found


def _closing(text: str, at: int) -> int | None:
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text[at:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if not depth:
            return at + brace.end()
    return None


def spell(text: str) -> str:
    """`text` in one spelling: ASCII and LaTeX signs, no thousands separators, no final stop."""
    text = _compatible(text).strip()
    for pattern, into in _RULES:
        text = pattern.sub(into if into is not None else _ungrouped, text)
    text = text.strip().strip("$").strip().removesuffix(".").strip()
    if number := _SCIENTIFIC.fullmatch(text):
        return rf"{number.group(1)} \times 10^{{{number.group(2)}}}"
    return text


def _ungrouped(number: re.Match[str]) -> str:
    return re.sub(r"\D", "", number.group())


def _compatible(text: str) -> str:
    """NFKC, except that raised, lowered and fraction signs keep their meaning."""
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: f"^{{{m.group().translate(_SUPER)}}}", text)
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉]+", lambda m: f"_{{{m.group().translate(_SUB)}}}", text)
    text = "".join(map(_fraction, text)) if not text.isascii() else text
    text = unicodedata.normalize("NFKC", text)
    return text.translate({ord(sign): latex for sign, latex in _SIGNS.items()})


def _fraction(sign: str) -> str:
    parts = unicodedata.normalize("NFKC", sign).split("⁄")
    return rf"\frac{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 and all(parts) else sign
