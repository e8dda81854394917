"""Licence names as people write them, brought to SPDX identifiers; what is not known stays unknown.

Source of the identifiers: spdx.org/licenses.
"""

import re

_IDENTIFIERS = (
    "0BSD", "AFL-3.0", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-1.1", "Apache-2.0",
    "Artistic-1.0", "Artistic-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Clear",
    "BSD-4-Clause", "BSL-1.0", "C-UDA-1.0",
    "CC-BY-1.0", "CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0",
    "CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0",
    "CC-BY-NC-ND-3.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-SA-2.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0",
    "CC-BY-ND-3.0", "CC-BY-ND-4.0", "CC-BY-SA-2.0", "CC-BY-SA-2.5", "CC-BY-SA-3.0", "CC-BY-SA-4.0",
    "CC0-1.0", "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "CDLA-Sharing-1.0", "ECL-2.0",
    "EPL-1.0", "EPL-2.0", "EUPL-1.1", "EUPL-1.2", "GFDL-1.3-or-later",
    "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "ISC",
    "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later", "MIT", "MIT-0",
    "MPL-1.1", "MPL-2.0", "MS-PL", "NCSA", "ODbL-1.0", "ODC-By-1.0", "OFL-1.1", "OGL-UK-3.0",
    "OSL-3.0", "PDDL-1.0", "PostgreSQL", "PSF-2.0", "Python-2.0", "Unlicense", "UPL-1.0",
    "WTFPL", "Zlib",
)  # fmt: skip

_SPELLINGS = {
    "apache 2": "Apache-2.0", "asl 2.0": "Apache-2.0",
    "bsd 2": "BSD-2-Clause", "simplified bsd": "BSD-2-Clause", "freebsd": "BSD-2-Clause",
    "bsd 3": "BSD-3-Clause", "new bsd": "BSD-3-Clause", "modified bsd": "BSD-3-Clause",
    "boost": "BSL-1.0", "boost 1.0": "BSL-1.0", "expat": "MIT", "x11 mit": "MIT",
    "cc0": "CC0-1.0", "cc 0": "CC0-1.0", "cc zero": "CC0-1.0",
    "odc by": "ODC-By-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0",
    "cdla permissive 1": "CDLA-Permissive-1.0", "cdla permissive 2": "CDLA-Permissive-2.0",
    "cdla sharing 1": "CDLA-Sharing-1.0", "c uda": "C-UDA-1.0",
    "mpl 2": "MPL-2.0", "mozilla public 2.0": "MPL-2.0", "postgresql": "PostgreSQL",
    "gpl 2.0": "GPL-2.0-only", "gpl 3.0": "GPL-3.0-only", "gpl v2": "GPL-2.0-only",
    "gpl v3": "GPL-3.0-only", "lgpl 2.1": "LGPL-2.1-only", "lgpl 3.0": "LGPL-3.0-only",
    "lgpl v3": "LGPL-3.0-only", "agpl 3.0": "AGPL-3.0-only", "agpl v3": "AGPL-3.0-only",
    "gpl 2.0+": "GPL-2.0-or-later", "gpl 3.0+": "GPL-3.0-or-later",
    "public domain mark": "PDM-1.0",
}  # fmt: skip

_WORDS = (
    (r"creative commons", "cc"), (r"attribution", "by"), (r"non[ -]?commercial", "nc"),
    (r"share[ -]?alike", "sa"), (r"no ?deriv(?:ative)?s?(?: works)?", "nd"),
    (r"open data commons", "odc"), (r"gnu (?:affero general public)", "agpl"),
    (r"gnu (?:lesser general public)", "lgpl"), (r"gnu (?:general public)", "gpl"),
    (r"\b(?:the|licen[cs]es?|licensed|version|international|unported|generic|software)\b", " "),
    (r"(?:\b|(?<=gpl))v(?=\d)", ""), (r"\bccby", "cc by"), (r"(\d) (\d)\b", r"\1.\2"),
    (r"\bby(nc|sa|nd)\b", r"by \1"),
    (r"\b(nc)(sa|nd)\b", r"\1 \2"), (r"\b(apache|mit|gpl|lgpl|agpl|mpl)(?=\d)", r"\1 "),
)  # fmt: skip

_URL = re.compile(
    r"(?:https?://)?(?:www\.)?creativecommons\.org/"
    r"(?:licenses/(?P<kind>[a-z-]+)/(?P<version>\d\.\d)|publicdomain/zero/(?P<zero>1\.0))"
    r"(?:/[\w.-]*)*/?"
)
_EXPLAINED = re.compile(r"([^()]+)\(([^()]+)\)")
_BRACKETED = re.compile(r"^\(([^()]*)\)$")
_OPERATOR = re.compile(r"\s+(OR|AND)\s+", re.IGNORECASE)


def _key(name: str) -> str:
    """`name` without what spellings differ in: case, punctuation, words that say nothing."""
    plain = re.sub(r"[\s_/(),:-]+", " ", name.casefold()).strip()
    for pattern, word in _WORDS:
        plain = re.sub(pattern, word, plain)
    return " ".join(plain.split())


_KNOWN = {
    **{_key(name): name for name in _IDENTIFIERS},
    **{_key(name[3:]): name for name in _IDENTIFIERS if name.startswith("CC-")},
    **{_key(spelling): name for spelling, name in _SPELLINGS.items()},
}


def identifier(name: str) -> str | None:
    """The SPDX identifier that `name` means; None where that is not certain.

    A family without its version (`CC-BY`, `GPL`, `Apache`) is not certain. A name that is
    explained in brackets must mean the same within and without.
    """
    stated = name.strip()
    if match := _URL.fullmatch(stated.casefold()):
        stated = "CC0-1.0" if match["zero"] else f"CC-{match['kind']}-{match['version']}"
    if match := _EXPLAINED.fullmatch(stated):
        within, without = (_KNOWN.get(_key(part)) for part in match.groups())
        return within if within == without else None
    return _KNOWN.get(_key(stated))


def permitted(expression: str, allowed: frozenset[str]) -> tuple[bool, list[str]]:
    """Whether an SPDX expression is allowed, and the names in it that are not known.

    `A OR B` is a choice, `A AND B` takes both and binds more; brackets within are not understood.
    """
    parts = _OPERATOR.split(_BRACKETED.sub(r"\1", expression.strip()))
    if len(parts) > 1 and any("(" in part or ")" in part for part in parts):
        return False, [expression]
    unknown: list[str] = []
    choices = [True]
    for operator, name in zip(["AND", *parts[1::2]], parts[::2], strict=True):
        if operator.upper() == "OR":
            choices.append(True)
        found = identifier(name)
        if found is None:
            unknown.append(name)
        choices[-1] &= found in allowed
    return any(choices), unknown
