"""International bank account numbers: form, length by country and check digits (ISO 13616)."""

import re

LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22,
    "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28,
    "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23,
    "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20,
    "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30,
    "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22,
    "SA": 24, "SC": 31, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23,
    "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
"""Characters of a number by country."""

START = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?=[ ]?[A-Z0-9])")
_SEPARATED = re.compile(r"[A-Z0-9](?:[ ]?[A-Z0-9])*")


def end(text: str, start: int) -> int | None:
    """Where the number that begins at `start` ends; None if none with right check digits does."""
    length = LENGTHS.get(text[start : start + 2])
    found = _SEPARATED.match(text, start, start + 2 * (length or 0))
    if length is None or found is None:
        return None
    characters: list[str] = []
    at = start
    while len(characters) < length and at < found.end():
        if text[at] != " ":
            characters.append(text[at])
        at += 1
    whole = len(characters) == length and not text[at : at + 1].isalnum()
    return at if whole and _sound("".join(characters)) else None


def _sound(number: str) -> bool:
    digits = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    return int(digits) % 97 == 1
