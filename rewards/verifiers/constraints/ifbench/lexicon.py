"""Closed classes of English words that rules refer to; all lower case but names."""


def word_set(words: str) -> frozenset[str]:
    """The words of a list that white space parts."""
    return frozenset(words.split())


ARTICLES = word_set("a an the")
COORDINATORS = word_set("and but for nor or so yet")

_PERSONAL = (
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his "
    "himself she her hers herself it its itself they them their theirs themselves"
)
_POINTING = "this that these those"
_ASKING = "who whom whose which what"
PRONOUNS = word_set(
    f"{_PERSONAL} {_POINTING} {_ASKING} whoever whomever whatever whichever "
    "anybody anyone anything everybody everyone everything nobody nothing somebody someone "
    "something each either neither both all some any none"
)

_FUNCTION_WORDS = (
    f"{_PERSONAL} {_POINTING} a an the and but if or because as until while of at by for with "
    "about against between into through during before after above below to from up down in out "
    "on off over under again further then once here there when where why how what which who whom "
    "am is are was were be been being have has had having do does did doing will can should "
    "all any both each few more most other some such no nor not only own same so than too very "
    "just now"
)
_CONTRACTED = (
    "s t d m o y ll re ve ma don ain aren couldn didn doesn hadn hasn haven isn mightn mustn needn "
    "shan shouldn wasn weren won wouldn"
)
STOP_WORDS = word_set(f"{_FUNCTION_WORDS} {_CONTRACTED}") - {"mine", "us"}
"""The stop words of the public implementation; parts of contractions stand alone."""

MINOR_WORDS = (
    ARTICLES
    | COORDINATORS
    | word_set(
        "as at by down from if in into like near of off on onto out over past per than to up upon "
        "via vs with when that"
    )
)
"""Words that a title may leave in lower case: articles, conjunctions, short prepositions."""

NAMES = word_set(
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander "
    "Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel "
    "Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David Hannah Christopher "
    "Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan"
)
"""The names that the instruction lists."""
