"""One spelling for each answer: ASCII and LaTeX signs, no styling, no thousands separators.

Only spelling is changed here, never a value.
"""

import re
import unicodedata
from fractions import Fraction

from rewards.verifiers.math.words import magnitude

_SUPER = {ord(c): str(n) for n, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {
    ord("⁻"): "-", ord("⁺"): "+", ord("ⁿ"): "n", ord("ⁱ"): "i",
}  # fmt: skip
_SUB = {ord(c): str(n) for n, c in enumerate("₀₁₂₃₄₅₆₇₈₉")} | {ord("ₙ"): "n", ord("ₖ"): "k"}
_SIGNS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ",
    "÷": "/", "∕": "/", "⁄": "/", "π": r"\pi ", "∞": r"\infty ", "θ": r"\theta ", "φ": r"\phi ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ",
    "ω": r"\omega ", "Δ": r"\Delta ", "∅": r"\emptyset ", "≤": r"\le ", "≥": r"\ge ",
    "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ",
    "∪": r"\cup ", "∩": r"\cap ",
    "∖": r"\setminus ", "∈": r"\in ", "±": r"\pm ", "∓": r"\mp ", "°": r"^{\circ}",
    "∠": r"\angle ",
    "。": ".", "、": ",", "∣": "|", "∗": "*", "＊": "*", "∶": ":",
    "…": r"\ldots ",
    "\u200b": "", "\u2060": "", "\ufeff": "", "\u00ad": "", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
_DOUBLE_STRUCK = {ord(c): rf"\mathbb{{{n}}}" for c, n in zip("ℝℤℕℚℂ", "RZNQC", strict=True)}

_TEXT = r"text|textbf|textit|textrm|textsf|texttt|textnormal|mbox|hbox|emph|bold"
_STYLES = (
    r"displaystyle|textstyle|scriptstyle|left|right|mleft|mright|[bB]igg?[lrm]?|limits|nolimits|"
    r"large|Large|LARGE|huge|Huge|small|normalsize|bf|rm|it|tt|sf|bfseries|checkmark|square|"
    r"blacksquare|thinspace|enspace|hfill"
)
_PERCENT = r"(?<![a-zA-Z])(?:percent(?:age)?|per cent|pct)"
_RULES = [
    (re.compile(r"\\(?:text)?color\s*(?:\[[^\]]*\])?\{[^{}]*\}"), ""),
    (re.compile(r"\\(?:[hv]space\*?|[hv]?phantom|tag\*?)\{[^{}]*\}"), " "),
    (re.compile(rf"\\(?:{_TEXT})\s*\{{"), r"\\text{"),
    (re.compile(rf"\\(?:left|right)\.|\\(?:{_STYLES})(?![a-zA-Z])"), " "),
    (re.compile(r"\\(?:underline|mathbf|boldsymbol|bm|pmb|uline|boxed|fbox)(?![a-zA-Z])"), ""),
    (re.compile(r"\\text\{([^{}A-Za-z]*|\s*\d[^{}]*)\}"), r"\1"),
    (re.compile(r"\\mathrm\s*\{([^{}]*)\^\{(-?\d)\}\s*\}"), r"\\text{\1^\2}"),
    (re.compile(r"\\(?:mathrm|mathit|text|operatorname|mathsf)\s*\{\s*([ei])\s*\}"), r" \1 "),
    (re.compile(r"\\math(?:rm|sf)\s*\{[\s~]*([A-Za-z][^{}]+?)[\s~]*\}"), r"\\text{\1}"),
    (re.compile(r"\\math(?:rm|sf)\s*\{\s*(\([A-J]\))\s*\}"), r"\\text{\1}"),
    (re.compile(r"(?:\\text\{\s*)?\b[Dd]egrees? ([CF])(?:elsius|ahrenheit)?(?:\s*\})?$"),
     r"^{\\circ}\1"),
    (re.compile(r"\\pmod\s*(?:\{([^{}]*)\}|(\w))"), r"\\text{ (mod \1\2)}"),
    (re.compile(r"\\math(?:rm|sf)\s*\{[\s~]*([A-Za-z])[\s~]*\}"), r"\\text{\1}"),
    (re.compile(r"(?<=[a-zA-Z])\{\}"), ""),
    (re.compile(r"\\operatorname\*?\s*\{\s*([a-z]{2,})\s*\}"), r"\\\1 "),
    (re.compile(r"\*\*(?=\s*[\d({\-A-Za-z\\])(?<=[\w)}]\*\*)"), "^"),
    (re.compile(r"\*\*|`|\\\$(?=\s*$)"), ""),
    (re.compile(r"\\q?quad"), " "),
    (re.compile(r"(?<=\d)\s*\^\s*(?:\{\s*o\s*\}|o(?![A-Za-z]))"), r"^{\\circ}"),
    (re.compile(r"\\text\{\s*to\s*\}"), " to "),
    (re.compile(r"\{\s*(\d+)\s*\\over\s*(\d+)\s*\}"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\(?:wide)?hat\s*\{?\s*\\?([ijk])(?:math)?(?![a-zA-Z])\s*\}?"), r"\1"),
    (re.compile(r"\\mathbb\s*\{?R\}?\s*(?:\^\s*\{?\+\}?|_\s*\{\s*>\s*0\s*\})"), r"(0,\\infty)"),
    (re.compile(r"\\begin\{(aligned|align\*?|gathered)\}([^&]*?)\\end\{\1\}"), r"\2"),
    (re.compile(r"(\\mathbb\s*(?:\{[A-Z]\}|[A-Z]))\s*-\s*(?=\\\{)"), r"\1\\setminus "),
    (re.compile(r"(?<=[\d)}])(and|or)(?=[A-Za-z])"), r" \1 "),
    (re.compile(r"\{\s*,\s*\}"), ","),
    (re.compile(r"\{:\}"), ":"),
    (re.compile(r"\\infinity(?![a-z])|\\text\{\s*[Ii]nfinity\s*\}"), r"\\infty"),
    (re.compile(r"\\text\{\s*all real numbers\s*\}|(?<![a-z])all real numbers"), r"\\mathbb{R}"),
    (re.compile(r"(?<![A-Za-z\\])sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"∛\s*(?:\(([^()]*)\)|(\d+|[A-Za-z]))"), r"\\sqrt[3]{\1\2}"),
    (re.compile(r"∛\s*(?=\{)"), r"\\sqrt[3]"),
    (re.compile(r"√\s*(\d+|[A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"√\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"√\s*(?=\{)"), r"\\sqrt"),
    (re.compile(r"(?<![A-Za-z\\])(?:C|binom)\s*\((\d+),\s*(\d+)\)"), r"\\binom{\1}{\2}"),
    (re.compile(rf"(?:\\text\{{\s*)?{_PERCENT}\.?(?:\s*\}})?(?=\s*$)"), r"\\%"),
    (re.compile(r"(\d)\s*[xX]\s*10\s*\^"), r"\1\\times 10^"),
]  # fmt: skip
_SPACE = r"(?:\\[,!:; ]|[ ~_']|\\,)"
_GROUPS = [
    re.compile(rf"(?<![\d.,\\])\d{{1,3}}(?:{_SPACE}\d{{3}})+(?!\d)"),
    re.compile(r"(?<![\d.,(\[{<])(?!0)\d{1,3}(?:,(?:\\!\s*)?\d{3})+(?![\d,])"),
    re.compile(r"(?<![\d.,(\[{<])(?!0)\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])"),
]
_POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3}){2,}|([+-]?\d{1,3}(?:\.\d{3})+),\d+")
_COMMA = re.compile(r"[+-]?0,\d+")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?(?:\\dot\s*\{?(\d)\}?)?")
_ENDLESS = re.compile(r"(\d*)\.(\d*?)(?:(\d{2,6}?)\3+|(\d)\4{2,})(?:\.\.\.|\\ldots|\\dots)\s*$")
_LONGEST_REPEATING = 500
_SCIENTIFIC = re.compile(r"(?<![A-Za-z_\\{\d.])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d{1,6})(?![\w.])")
_MIXED = re.compile(r"(?<![\d.])(\d+) +(\d+)/(\d+)(?![\d.])")
_MIXED_SIGN = re.compile(r"(?<=\d)(?=\\frac\{\d+\}\{\d+\}$)")
_MAGNITUDE = re.compile(
    r"(?<![\w.^_{}/\\])(\d+(?:\.\d+)?)\s*(\\text\{)?\s*([A-Za-z]{4,})(?![A-Za-z])\s*(?(2)(\}?))"
)
_BUILDER = re.compile(
    r"\\(?:\{|lbrace)\s*([a-z])\s*(?:\\in\s*\\mathbb\s*\{?R\}?\s*)?(?:\\mid|\||:)"
    r"((?:(?!\\in(?![a-z])|[{}|:]).)*(?:[<>]|\\[lg]eq?(?![a-z])|\\ne)(?:(?!\\in(?![a-z])|[{}|:]).)*)"
    r"\\(?:\}|rbrace)"
)
_REVERSED = re.compile(
    r"(?P<before>^|=|\\in|\\c[ua]p)\s*(?P<open>[\[\]])(?P<ends>[^\[\]]+[,;][^\[\]]+)(?P<close>[\[\]])"
    r"(?=\s*(?:$|\\c[ua]p|\\setminus))"
)
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z{}])")
_EQUATIONS = re.compile(r"\\begin\{cases\}([^&]*?)(?:\\\\\s*)?\\end\{cases\}")
_DOLLAR = re.compile(r"(?<!\\)\$")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


def spell(text: str) -> str:
    """`text` in one spelling; a set given by a condition is that condition."""
    text = _spelled(text)
    if len(text) > _LONGEST_REPEATING:
        return text
    condition = _BUILDER.fullmatch(text)
    return _REVERSED.sub(_turned, text) if condition is None else condition.group(2).strip()


def bound(text: str) -> str | None:
    """The variable of a set given by a condition, as `y` of `{y : y > 3}`."""
    if len(text) > _LONGEST_REPEATING or "{" not in text:
        return None
    condition = _BUILDER.fullmatch(_spelled(text))
    return None if condition is None else condition.group(1)


def _spelled(text: str) -> str:
    text = unwrapped(compatible(text))
    if "\\begin" not in text:
        text = _DOUBLED.sub(r"\\", text)
    dollars = len(_DOLLAR.findall(text))
    text = _DOLLAR.sub("", text) if dollars and dollars % 2 == 0 else text.replace("\\$", "$")
    for pattern, into in _RULES:
        text = pattern.sub(into, text)
    text = _EQUATIONS.sub(lambda match: match.group(1).replace("\\\\", ","), text)
    text = _numbers(text.strip())
    text = re.sub(r"(?<!\\)\\[,;:!\s]|~", " ", text)
    return unwrapped(re.sub(r"\s+", " ", text))


def _turned(match: re.Match[str]) -> str:
    """`]a, b[` as `(a, b)`."""
    opening = "(" if match["open"] == "]" else "["
    closing = ")" if match["close"] == "[" else "]"
    return f"{match['before']} {opening}{match['ends']}{closing}"


def _numbers(text: str) -> str:
    for pattern in _GROUPS:
        text = pattern.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    if match := _POINTS.fullmatch(text):
        text = text.replace(".", "").replace(",", ".") if match.group(1) else text.replace(".", "")
    elif _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if len(text) <= _LONGEST_REPEATING:
        text = _ENDLESS.sub(_repeating, _REPEATING.sub(_repeating, text))
    text = _MAGNITUDE.sub(_magnified, text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    return _SCIENTIFIC.sub(r"\1\\times 10^{\2}", text)


def _magnified(match: re.Match[str]) -> str:
    """`5 million` and `3 halves` as the numbers they are."""
    digits, opening, word, closing = match.groups()
    factor = magnitude(word)
    if factor is None:
        return match.group()
    value = Fraction(digits) * factor
    whole = value.denominator == 1
    shown = str(value) if whole else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    return f"{shown} " if not opening or closing else rf"{shown}\text{{ "


def _repeating(match: re.Match[str]) -> str:
    """A repeating decimal as the fraction it is."""
    whole, before, *again_parts = match.groups()
    again = "".join(part or "" for part in again_parts)
    shift, period = 10 ** len(before), 10 ** len(again) - 1
    start = int((whole or "0") + before or "0")
    return rf"\frac{{{start * period + int(again)}}}{{{shift * period}}}"


def unwrapped(text: str) -> str:
    """Without what only marks mathematics, and without a final stop."""
    before = None
    while text != before:
        before = text
        text = text.strip()
        if text[-1:] in (".", "\\") and text[-2:-1] not in (".", "\\"):
            text = text[:-1].rstrip()
        for opening, closing in _WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            whole = text.startswith(opening) and text.endswith(closing)
            if whole and len(text) > len(opening + closing) and opening not in inner:
                text = inner
    return text


def compatible(text: str) -> str:
    """NFKC, except that raised, lowered and fraction signs keep their meaning; digits are ASCII."""
    if text.isascii():
        return text
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿⁱ]+", lambda m: f"^{{{m.group().translate(_SUPER)}}}", text)
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉ₙₖ]+", lambda m: f"_{{{m.group().translate(_SUB)}}}", text)
    text = "".join(map(_sign, text.translate(_DOUBLE_STRUCK)))
    text = unicodedata.normalize("NFKC", text)
    return text.translate({ord(sign): latex for sign, latex in _SIGNS.items()})


def _sign(sign: str) -> str:
    if sign.isascii():
        return sign
    if unicodedata.category(sign) == "Nd":
        return str(unicodedata.digit(sign))
    parts = unicodedata.normalize("NFKC", sign).split("⁄")
    return rf"\frac{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 and all(parts) else sign
