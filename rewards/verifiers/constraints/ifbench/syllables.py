"""Whether English words have an odd or even number of syllables, by rules and exceptions.

The rules are right for some 97 of 100 common words; a word that is said in two ways, one syllable
apart ("every", "fire"), counts as either.
"""

import re

import syllapy  # type: ignore[import-untyped]

from rewards.verifiers.constraints.ifbench.lexicon import word_set
from rewards.verifiers.constraints.ifbench.spelling import unaccented

_PARTS = re.compile(r"[a-z]+")
_VOWELS = re.compile(r"[aeiouy]+")
_COMPOUND = (
    r"(?=(?:ly|ment|less|ness|ful|some|where|thing|time|work|land|bod|way|side|line|hold|how|day|"
    r"ball|m[ae]n|ty|cast|place|hood|paper|board|book|life|make|mark|name|site|proof|wood|stone|"
    r"writ|back|town|keep|mat|print|stick|guard|top|room|yard|ware|fore|for|fox|wall|style|walk|what|"
    r"spread|house|sale|wise|head|brow|lihood)\w*)"
)
# Each match is one group of vowel letters too many: a silent e.
_SILENT = re.compile(
    r"(?<![^aeiouylrw][lr])(?<=[^aeiouy])e$"
    r"|[qg]ues?$"
    r"|(?<![sxzcg])(?<![cs]h)(?<![^aeiouylrw][lr])(?<=[^aeiouy])es$"
    r"|(?<![dtc]r)(?<![^aeiouylrw]l)(?<=[^aeiouytd])ed$"
    rf"|(?<=[aeiouy])(?:[^aeiouy]|st|ls|ng|nc|rg|dg|rs|ns|rc|lv|rv)e{_COMPOUND}"
)
# Each match is one group of vowel letters that is two syllables, or a voiced m.
_APART = re.compile(
    r"(?<![ctsgxq])ia(?!ge)|[ct]ia(?=t)|gia(?=nt)|(?<![ctsgxq])io(?![un])|(?<![ctsgxnlqh])io(?=n)"
    r"|(?<![ctsgxq])iou|(?<=[ct])io(?=lo)|nio(?=[rt]i)|(?<![qg])ua(?=[lrt])|uou|[aeouy]ing"
    r"|(?<![gp])eo(?=[nlrut]|$)|geo(?=[gmlp])|(?<!q)ui(?=t[yi]|n(?!g$)|ci)|iu|ii|(?<=cr)ea(?=t[eio])"
    r"|(?<=r)ea(?=ct)|(?<=r)ea(?=li[sz])|ie(?=r$|rs$|st$)|(?<![ctgs])ie(?=t|nc|nt)|^scie(?=n)"
    r"|[aeou]y(?=[aeiou])(?!e$|es$|ed$)|oa(?=li)|(?<=c)oo(?=pt|rd)|^coo(?=pera)|(?<![qg])ue(?=l|nt|nc|t)"
    r"|(?:s|th)ms?$"
)
_EXACT = {
    word: count
    for count, words in enumerate(
        (
            "aisle priest eye eyes says said shoes toes goes does blessed learned aged friend "
            "friends used tea bean dean one once two sword queue queued",
            "acre acres genre island create people maybe something via business someone naked "
            "wicked colonel choir being seeing doing going science sciences quiet diet lion poet "
            "poem chaos hero heroes ocean pigeon dungeon surgeon savior senior junior william "
            "ruin ruins fluid cafe ourselves themselves yourselves evening wednesday really "
            "creature creatures ready acne goddess dial trial client riot prior duet cruel fuel "
            "duel jewel towel vowel fewer newer sewer tower power shower flower lower slower "
            "vacuum moment cement cities movie movies cookie cookies prairie soldier soldiers "
            "premier cashier ancient patient patients species conscience crooked rugged jagged "
            "ragged sacred hatred hundred kindred toward towards iron irons answer tortoise "
            "purpose promise argue genius makeup lineup takeout ryan awhile meanwhile eyebrow "
            "diamond nearby whereby thereby",
            "area idea ideas theater theatre businesses recipe somebody whoever beloved museum "
            "behavior alien suicide simile coyote forever however moreover already machete karate "
            "adobe finale sesame trio radio studio video rodeo stereo cameo ratio audio pioneer "
            "violin violet korea twentieth denial element efficient sufficient convenient lenient "
            "orient gradient nutrient everyone anyone linear nuclear poetry korean guinea "
            "pursuant reinforce parliament scientist scientists",
            "apostrophe catastrophe hyperbole epitome vigilante january february coordinate "
            "zoology reality biology valuable society variety anxiety continuum experience "
            "audience obedience ingredient european scientific diabetes caribbean",
            "elementary coordination christianity",
        ),
        start=1,
    )
    for word in words.split()
}
_EITHER = word_set(
    "every everything everyone everybody everywhere everyday fire fires fired tire tires tired "
    "wire wires hire hired hour hours our flour sour power powers flower flowers shower tower "
    "family families chocolate interest interests interesting interested different difference "
    "favorite favourite camera memory memories history victory mystery factory battery delivery "
    "several general generally natural naturally vegetable vegetables comfortable temperature "
    "restaurant average separate desperate aspirin business orange real really ideal poem poems "
    "being cruel fuel jewel prayer mayor layer choir lyre drawer caramel toward towards "
    "laboratory dictionary ordinary military literature miniature beverage evening reference "
    "preference conference opera celery salary summary boundary nursery grocery scenery gallery "
    "cemetery misery slippery brilliant familiar peculiar senior junior alien usually actually "
    "casually visual usual casual ritual mutual royal loyal trial dial vial giant lion quiet iron "
    "science diary higher liar prior squirrel basically typically politically historically "
    "practically virginia australia italian civilian belgium convenience awhile"
)


def parities(word: str) -> frozenset[int]:
    """0 for an even, 1 for an odd number of syllables of `word`; both where it is said both ways.

    Hyphenated parts count together. Empty for a word without letters.
    """
    parts = _PARTS.findall(unaccented(word).lower().replace("'", ""))
    if not parts:
        return frozenset()
    if _EITHER.intersection(parts):
        return frozenset({0, 1})
    return frozenset({sum(syllables(part) for part in parts) % 2})


def syllables(word: str) -> int:
    """Syllables of `word`, of lower-case ASCII letters only."""
    if word in _EXACT:
        return _EXACT[word]
    groups = len(_VOWELS.findall(word)) + len(_APART.findall(word))
    return max(1, groups - (len(_SILENT.findall(word)) if len(word) > 2 else 0))


def listed(word: str) -> int:
    """Syllables of `word` as the public implementation counts them."""
    return int(syllapy.count(word))
