"""A text as its reader sees it, so that no rule is met by what only a program can tell apart.

`shown` keeps every visible character. `plain` also writes each letter in its ordinary form, and
takes out emphasis inside words: `**w**ar` is a word. `latin` also reads letters of other scripts
as the Latin ones they look like, in words that can be nothing else. Linear in the text.
"""

import re
import unicodedata


def _code_points(table: str) -> frozenset[str]:
    found: set[str] = set()
    for entry in table.split():
        first, _, last = entry.partition("-")
        found.update(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return frozenset(found)


BLANK = _code_points("115f-1160 180e 2800 3164 ffa0 13441-13442 1d159")
"""Characters that look like white space and are none to Unicode."""

GAPS = BLANK | _code_points("200b-200c 2060-2064 feff")
"""These, and characters of no width that stand for a space or a break."""

# Unicode's Default_Ignorable_Code_Point without BLANK, and the annotation marks.
_INVISIBLE = _code_points(
    "ad 34f 61c 17b4-17b5 180b-180d 180f 200b-200f 202a-202e 2060-206f fe00-fe0f feff fff0-fffb "
    "1bca0-1bca3 1d173-1d17a e0000-e0fff"
)
_SHOWN = str.maketrans(dict.fromkeys(_INVISIBLE, "") | dict.fromkeys(BLANK, " "))

# Letters in dark circles and squares have no ordinary form in Unicode; ™ is no letters, and what
# only makes a word wider is none.
_ORDINARY = str.maketrans(
    {chr(start + place): chr(65 + place) for start in (0x1F150, 0x1F170) for place in range(26)}
    | {"™": " ", "℠": " ", "\u0640": "", "\u07fa": ""}
)
_LETTER = r"[^\W\d_]"
_SPAN = r"(\*{1,3}|~~)(?=\S)([^*~\n]+)(?<=\S)"
_EMPHASIS = re.compile(rf"(?<={_LETTER}){_SPAN}\1|{_SPAN}\3(?=\**{_LETTER})")
_TAG = re.compile(r"</?(?:b|i|u|s|em|strong|span|small|mark|sub|sup|del|ins|wbr)[ ]?/?>", re.I)

_LOOKALIKES = {
    "аеорсухіјѕһԁԛԝӏкмтАВЕЅІЈКМНОРСТУХԌԚԜӀ": "aeopcyxijshdqwlkmtABESIJKMHOPCTYXGQWI",
    "αονικρυχγωητΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "aovikpuxywntABEZHIKMNOPTYX",
    "օսհո": "ouhn",
}
_FOREIGN = "".join(_LOOKALIKES)
_LATIN = str.maketrans(_FOREIGN, "".join(_LOOKALIKES.values()))
_SMALL = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢɑɡ", "abcdefghijklmnoprstuvwyzag")
_STACKED = re.compile(r"(?<=[A-Za-z\u00c0-\u024f])[\u0300-\u036f\u20d0-\u20f0]+")
_OTHER = re.compile(rf"(?![{_FOREIGN}])[\u0370-\u058f]")
_WORD = re.compile(rf"(?<!{_LETTER})[A-Za-z\u00c0-\u024f{_FOREIGN}]++(?!{_LETTER})")
_ASCII = re.compile(r"[A-Za-z]")


def shown(text: str) -> str:
    """`text` without characters that show nothing, and with a space for each blank one."""
    return text if text.isascii() else text.translate(_SHOWN)


def plain(text: str) -> str:
    """`text` as `shown`, in ordinary letters (ⓐ and ａ are a), without emphasis inside words."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_SHOWN).translate(_ORDINARY))
        text = text.replace("\u2044", "")  # Of one half, which is one word.
    for _ in range(2 if "*" in text or "~~" in text else 0):
        text = _EMPHASIS.sub(lambda span: span[2] or span[4], text)
    return _TAG.sub("", text) if "<" in text else text


def latin(text: str) -> str:
    """`text` as `plain`, with Latin letters for what looks like them.

    A letter of another script is one in a word with Latin letters, and so is each letter of a
    longer word, where the text is else in Latin.
    """
    text = plain(text)
    if text.isascii():
        return text
    text = _STACKED.sub("", text.translate(_SMALL))
    alone = not _OTHER.search(text) and bool(_ASCII.search(text))

    def read(word: re.Match[str]) -> str:
        mixed = _ASCII.search(word.group()) or (alone and len(word.group()) > 1)
        return word.group().translate(_LATIN) if mixed else word.group()

    return _WORD.sub(read, text)
