"""Marks that are not to be used (`punctuation:*`).

Repaired: the mark of any script and form counts, since each reads as it; but a comma or full stop
of Chinese and Japanese next to that writing is another mark than the comma and the dot.
"""

import re
import unicodedata

from rewards.verifiers.constraints.appearance import shown
from rewards.verifiers.constraints.check import Parameters, Response, instruction

# What Unicode names COMMA, FULL STOP or EXCLAMATION MARK and does not reduce to the ASCII one, and
# letters that look like one where no letter follows.
_COMMA = re.compile(
    r"[,\u055d\u060c\u066b\u07f8\u1363\u1802\u1808\u201a\u2e32\u2e34\u2e41\u2e49\u2e4c\u3001\ua4f9"
    r"\ua4fe\ua60d\ua6f5\U0001144d\U0001145a\U00016e97\U0001da87]"
)
_DOT = re.compile(
    r"[.\u0589\u06d4\u0701\u0702\u1362\u166e\u1803\u1809\u2cf9\u2cfe\u2e3c\u3002\ua4f8\ua4ff\ua60e"
    r"\ua6f3\U00016af5\U00016e98\U0001bc9f\U0001da88]"
)
_EXCLAMATION = re.compile(
    r"[!\u00a1\u055c\u07f9\u1944\u2755\u2757\u2762\u2763\u2e53\ua71d-\ua71f\U0001e95e]"
    r"|\u01c3(?!\w)"
)
_LOW_QUOTED = re.compile(r"(?<!\w)\u201a(?=\S)[^\u201a\u2018\u2019\n]*[\u2018\u2019]")
_EAST = r"[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff]"
_EASTERN = re.compile(rf"(?<={_EAST})[，、。｡]|[，、。｡](?={_EAST})")


def _ordinary(text: str) -> str:
    """`text` with ASCII marks for those of another width, and three dots for an ellipsis."""
    return unicodedata.normalize("NFKC", shown(text))


@instruction("punctuation:no_comma", Parameters, "use no comma")
def no_comma(response: Response, wanted: Parameters) -> bool:
    """The low mark of a German ‚quotation‘ is no comma."""
    text = _EASTERN.sub("", _LOW_QUOTED.sub("", response.text))
    return not _COMMA.search(_ordinary(text))


@no_comma.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return "," not in response.text


@instruction("punctuation:punctuation_dot", Parameters, "use no dot")
def punctuation_dot(response: Response, wanted: Parameters) -> bool:
    return not _DOT.search(_ordinary(_EASTERN.sub("", response.text)))


@punctuation_dot.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return "." not in response.text


@instruction("punctuation:punctuation_exclamation", Parameters, "use no exclamation mark")
def punctuation_exclamation(response: Response, wanted: Parameters) -> bool:
    return not _EXCLAMATION.search(_ordinary(response.text))


@punctuation_exclamation.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return "!" not in response.text
