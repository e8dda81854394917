"""Names of places that instructions ask for: the states of Africa, capitals by latitude."""

import re

from rewards.verifiers.constraints.ifbench.spelling import straight, unaccented

_STATES = """
algeria; angola; benin; botswana; burkina faso; burundi; cabo verde, cape verde; cameroon;
central african republic; chad; comoros; egypt; equatorial guinea; eritrea; djibouti;
eswatini, swaziland; ethiopia; gabon; gambia; ghana; guinea; guinea bissau; kenya; lesotho;
liberia; libya; madagascar; malawi; mali; mauritania; mauritius; morocco; mozambique; namibia;
niger; nigeria; rwanda; sao tome and principe, sao tome principe; senegal; seychelles;
sierra leone; somalia; south africa; south sudan; sudan; tanzania; togo; tunisia; uganda; zambia;
zimbabwe; cote d ivoire, ivory coast;
western sahara, sahrawi arab democratic republic, sahrawi republic;
congo democratic republic of the, democratic republic of the congo, democratic republic of congo,
congo democratic republic, dr congo, drc, congo kinshasa, congo drc, congo democratic republic of;
congo, republic of the congo, congo republic of the, congo republic, republic of congo,
congo brazzaville, congo republic of
"""

AFRICA: dict[str, str] = {
    " ".join(name.split()): state.split(",")[0].strip()
    for state in _STATES.split(";")
    for name in state.split(",")
}
"""Each usual name of an African state, as `place_key` writes it, and the one name it stands for."""

NORTHERN_CAPITALS = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin "
    "Amsterdam Warsaw London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz "
    "Chisinau Bern Ljubljana Zagreb"
)
"""Capitals of Europe north of 45 degrees, from north to south, as the instruction's key has them.

Kyiv, between Brussels and Prague, is not in the key; a list that has it there is right too.
"""


def place_key(name: str) -> str:
    """`name` in lower case, without accents, marks and a leading article."""
    words = re.sub(r"[^a-z0-9]+", " ", unaccented(straight(name)).lower()).split()
    return " ".join(words[1:] if words[:1] == ["the"] else words)


def african_state(line: str) -> str | None:
    """The state that `line` names, whatever stands in brackets after it; None for another line."""
    bare = re.sub(r"\([^()]*\)", "", line)
    for name in (line, bare):
        if place_key(name) in AFRICA:
            return AFRICA[place_key(name)]
    return None
