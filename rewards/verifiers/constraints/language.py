"""Which language a text is in, without network or chance: equal texts get equal answers.

CLD2 decides, for it is sure of short and upper-case texts where langdetect is not; below
`_SHORT` letters, seeded langdetect (the public implementation's detector) is heard too. Text
without a detectable language is in none.
"""

import re

import langdetect
import langdetect.detector_factory
import pycld2
from langdetect.lang_detect_exception import LangDetectException

langdetect.DetectorFactory.seed = 0
langdetect.detector_factory.init_factory()  # Once, before workers are forked.

_LISTED = (
    "af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr "
    "ne nl no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw"
)
CODES = frozenset(_LISTED.split())
"""The languages langdetect knows, by its codes."""

_CLD2 = {"he": "iw", "zh-cn": "zh", "zh-tw": "zh-Hant"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]+")
_SHORT = 200
_OTHER = 25  # Percent of the text that another language may take, for names and quotations.


def is_in(text: str, language: str) -> bool:
    """Whether `text` is in `language`, one of CODES, as a whole."""
    return _cld2(text, language) or (
        sum(map(str.isalpha, text)) < _SHORT and langdetected(text.lower()) == language
    )


def is_english(text: str) -> bool:
    """Whether `text` can be English, in any case: only what is clearly another language is not."""
    return is_in(text, "en") or _cld2(text, "en", hint="en")


def langdetected(text: str) -> str | None:
    """The code seeded langdetect gives; None where it finds no language."""
    try:
        return str(langdetect.detect(text))
    except LangDetectException:
        return None


def _cld2(text: str, language: str, hint: str | None = None) -> bool:
    code = _CLD2.get(language, language)
    plain = _CONTROL.sub(" ", text)
    try:
        found = pycld2.detect(plain, bestEffort=True, hintLanguage=hint)[2]
    except pycld2.error:  # It takes some code points for broken text.
        return False
    shares = {name: share for _, name, share, _ in found if name != "un"}
    others = [share for name, share in shares.items() if name != code]
    return next(iter(shares), None) == code and max(others, default=0) < _OTHER
