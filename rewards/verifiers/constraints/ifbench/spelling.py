"""The letters of words and texts, whatever the typography: accents, quote marks, code fences."""

import unicodedata

_STRAIGHT = str.maketrans("‘’‚‛“”„‟ʼ‐‑", "''''\"\"\"\"'--")
_STOPS = {".": ".", "…": ".", "。": ".", "?": "?", "？": "?", "!": "!", "！": "!"}


def unaccented(text: str) -> str:
    """`text` in ASCII: accents fall away, characters without an ASCII base too."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def straight(text: str) -> str:
    """`text` with ASCII quote marks, apostrophes and hyphens for the typographic ones."""
    return text.translate(_STRAIGHT)


def letters(word: str) -> str:
    """The letters and digits of `word`, lower case, without accents where it has ASCII ones."""
    plain = unaccented(word) or word
    return "".join(filter(str.isalnum, plain)).lower()


def initial(word: str) -> str:
    """The first letter or digit of `word` as in `letters`; empty if it has none."""
    return letters(word)[:1]


def closing_mark(sentence: str) -> str:
    """The ".", "?" or "!" that ends `sentence`, whatever follows but words; else empty."""
    for sign in reversed(sentence):
        if sign in _STOPS:
            return _STOPS[sign]
        if sign.isalnum():
            break
    return ""


def unfenced(text: str) -> str:
    """What one code fence round the whole of `text` holds; `text` itself without one."""
    inner = text.strip()
    info, _, rest = inner.partition("\n")
    body = rest.removesuffix("```")
    if not info.startswith("```") or body == rest or "```" in info[3:] + body:
        return text
    return body.rstrip("\n")
