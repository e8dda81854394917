"""Probes of `constraints`: responses written to follow an instruction, or to miss it narrowly."""

from collections.abc import Callable, Sequence
from random import Random

from pydantic import JsonValue

from rewards.audit.probe import Maker, Probe
from rewards.schema import Item

_WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heron", "islet", "knoll",
    "lotus", "maple", "north", "ocean", "pearl", "quilt", "river", "stone", "thorn", "wheat",
)  # fmt: skip

Parameters = dict[str, JsonValue]
Instruction = Callable[[Random], tuple[str, Parameters, str, str]]
"""Draws an instruction's id, its parameters, a response that follows it, and one that does not."""


def _words(draw: Random, count: int) -> list[str]:
    return [draw.choice(_WORDS) for _ in range(count)]


def _sentence(draw: Random, count: int = 6) -> str:
    return f"{' '.join(_words(draw, count)).capitalize()}."


def _no_comma(draw: Random) -> tuple[str, Parameters, str, str]:
    text = _sentence(draw)
    return "punctuation:no_comma", {}, text, text.replace(" ", ", ", 1)


def _lowercase(draw: Random) -> tuple[str, Parameters, str, str]:
    text = f"the {' '.join(_words(draw, 3))} is near the {' '.join(_words(draw, 2))} and it is old."
    return "change_case:english_lowercase", {}, text, text.capitalize()


def _least_words(draw: Random) -> tuple[str, Parameters, str, str]:
    n = draw.randint(5, 60)
    parameters: Parameters = {"num_words": n, "relation": "at least"}
    return ("length_constraints:number_words", parameters, " ".join(_words(draw, n)),
            " ".join(_words(draw, n - 1)))  # fmt: skip


def _fewer_words(draw: Random) -> tuple[str, Parameters, str, str]:
    n = draw.randint(5, 60)
    parameters: Parameters = {"num_words": n, "relation": "less than"}
    return ("length_constraints:number_words", parameters, " ".join(_words(draw, n - 1)),
            " ".join(_words(draw, n)))  # fmt: skip


def _keywords(draw: Random) -> tuple[str, Parameters, str, str]:
    first, second = draw.sample(_WORDS, 2)
    text = f"{first.upper()} and {second}."
    return "keywords:existence", {"keywords": [first, second]}, text, text.replace(second, "moss")


def _forbidden(draw: Random) -> tuple[str, Parameters, str, str]:
    word = draw.choice(_WORDS)
    return ("keywords:forbidden_words", {"forbidden_words": [word]}, "The moss is green.",
            f"The moss is by the {word}.")  # fmt: skip


def _frequency(draw: Random) -> tuple[str, Parameters, str, str]:
    n, word = draw.randint(2, 5), draw.choice(_WORDS)
    parameters: Parameters = {"keyword": word, "frequency": n, "relation": "at least"}
    return "keywords:frequency", parameters, f"{word}, " * n, f"{word}, " * (n - 1)


def _bullets(draw: Random) -> tuple[str, Parameters, str, str]:
    lines = [f"* {word}" for word in _words(draw, draw.randint(2, 6))]
    parameters: Parameters = {"num_bullets": len(lines)}
    return ("detectable_format:number_bullet_lists", parameters, "\n".join(lines),
            "\n".join(lines[1:]))  # fmt: skip


def _title(draw: Random) -> tuple[str, Parameters, str, str]:
    text = _sentence(draw)
    return "detectable_format:title", {}, f"<<The moss>>\n{text}", f"<The moss>\n{text}"


def _json(draw: Random) -> tuple[str, Parameters, str, str]:
    text = f'{{"{draw.choice(_WORDS)}": {draw.randint(0, 99)}}}'
    return "detectable_format:json_format", {}, text, f"{text[:-1]},}}"


def _ending(draw: Random) -> tuple[str, Parameters, str, str]:
    end = " ".join(_words(draw, 3))
    parameters: Parameters = {"end_phrase": end}
    return "startend:end_checker", parameters, f"It was {end}", f"It was {end} then"


def _quotation(draw: Random) -> tuple[str, Parameters, str, str]:
    text = _sentence(draw)
    return "startend:quotation", {}, f'"{text}"', f'"{text}" Yes.'


def _two_responses(draw: Random) -> tuple[str, Parameters, str, str]:
    first = _sentence(draw)
    good, bad = f"{first}\n******\nMoss.", f"{first}\n******\nMoss.\n******\nFern."
    return "combination:two_responses", {}, good, bad


def _placeholders(draw: Random) -> tuple[str, Parameters, str, str]:
    n = draw.randint(2, 5)
    marks = [f"[{word}]" for word in _words(draw, n)]
    parameters: Parameters = {"num_placeholders": n}
    return ("detectable_content:number_placeholders", parameters, f"Dear {', '.join(marks)}.",
            f"Dear {', '.join(marks[1:])}.")  # fmt: skip


def _two_paragraphs(draw: Random) -> tuple[str, Parameters, str, str]:
    first, second = _sentence(draw), _sentence(draw)
    return "paragraphs:paragraphs2", {}, f"{first}\n\n{second}", f"{first}\n{second}"


def _no_exclamation(draw: Random) -> tuple[str, Parameters, str, str]:
    text = _sentence(draw)
    return "punctuation:punctuation_exclamation", {}, text, f"{text[:-1]}!"


def _few_lowercase(draw: Random) -> tuple[str, Parameters, str, str]:
    n = draw.randint(2, 9)
    return ("count:lowercase_counting", {"N": n}, " ".join(["MOSS", *_words(draw, n)]),
            " ".join(["MOSS", *_words(draw, n + 1)]))  # fmt: skip


def _once(draw: Random) -> tuple[str, Parameters, str, str]:
    word = draw.choice(_WORDS)
    return "keywords:word_once", {"keyword": word}, f"A {word} grew.", f"A {word} by a {word} grew."


def _brackets(draw: Random) -> tuple[str, Parameters, str, str]:
    words = _words(draw, 4)
    good = " ".join(f"[{word}]" for word in words)
    return "detectable_format:square_brackets", {}, good, f"{good} moss"


def _last_word(draw: Random) -> tuple[str, Parameters, str, str]:
    word = draw.choice(_WORDS)
    parameters: Parameters = {"last_word": word}
    return "last_word:last_word_answer", parameters, f"It is the {word}.", f"The {word} it is."


def _word_range(draw: Random) -> tuple[str, Parameters, str, str]:
    low = draw.randint(3, 30)
    high = low + draw.randint(0, 20)
    parameters: Parameters = {"min_words": low, "max_words": high}
    count, over = draw.randint(low, high), draw.choice([low - 1, high + 1])
    return ("count:word_count_range", parameters, " ".join(_words(draw, count)),
            " ".join(_words(draw, over)))  # fmt: skip


def _numbers(draw: Random) -> tuple[str, Parameters, str, str]:
    n = draw.randint(2, 6)
    text = " ".join(f"moss {draw.randint(1, 99)}" for _ in range(n))
    return "count:numbers", {"N": n}, text, f"{text} fern {n}"


def _no_space(draw: Random) -> tuple[str, Parameters, str, str]:
    words = _words(draw, 4)
    return "format:no_whitespace", {}, "".join(words), " ".join(words)


def _one_a_line(draw: Random) -> tuple[str, Parameters, str, str]:
    words = _words(draw, 5)
    return "format:newline", {}, "\n".join(words), " ".join(words)


def _repeats(draw: Random) -> tuple[str, Parameters, str, str]:
    n, word = draw.randint(1, 3), draw.choice(_WORDS)
    parameters: Parameters = {"small_n": n}
    return "words:repeats", parameters, f"moss {f'{word} ' * n}", f"moss {f'{word} ' * (n + 1)}"


def _multiples(draw: Random) -> tuple[str, Parameters, str, str]:
    good = "14 21 28 35 42 49"
    return "custom:multiples", {}, good, good.replace(draw.choice(good.split()), "56")


def _in_sentence(draw: Random) -> tuple[str, Parameters, str, str]:
    n, word = draw.randint(1, 3), draw.choice(_WORDS)
    rest = ["The moss is green.", "The fern is tall.", "The sky is blue.", "The rain is warm."]
    good = [*rest[: n - 1], f"The {word} is old.", *rest[n - 1 :]]
    bad = [*rest[:n], f"The {word} is old.", *rest[n:]]
    parameters: Parameters = {"word": word, "N": n}
    return "sentence:keyword", parameters, " ".join(good), " ".join(bad)


_INSTRUCTIONS: Sequence[Instruction] = (
    _no_comma, _lowercase, _least_words, _fewer_words, _keywords, _forbidden, _frequency, _bullets,
    _title, _json, _ending, _quotation, _two_responses, _placeholders, _two_paragraphs,
    _no_exclamation, _few_lowercase, _once, _brackets, _last_word, _word_range, _numbers,
    _no_space, _one_a_line, _repeats, _multiples, _in_sentence,
)  # fmt: skip


def _item(gold: JsonValue, response: str) -> Item:
    return Item(id="", verifier="constraints", response=response, gold=gold)


def _gold(*pairs: tuple[str, JsonValue]) -> JsonValue:
    return {"instruction_id": [name for name, _ in pairs], "kwargs": [given for _, given in pairs]}


def _followed(instruction: Instruction) -> Maker:
    def make(draw: Random) -> Probe:
        name, parameters, good, _ = instruction(draw)
        return Probe("metamorphic", name, _item(_gold((name, parameters)), good), True)

    return make


def _missed(instruction: Instruction) -> Maker:
    def make(draw: Random) -> Probe:
        name, parameters, _, bad = instruction(draw)
        return Probe("metamorphic", name, _item(_gold((name, parameters)), bad), False)

    return make


def _half(draw: Random) -> Probe:
    """Two instructions of which one is followed: by default all have to be."""
    text = _sentence(draw)
    pairs: list[tuple[str, JsonValue]] = [
        ("punctuation:no_comma", {}),
        ("detectable_format:title", {}),
    ]
    draw.shuffle(pairs)
    return Probe("adversarial", "half of the instructions", _item(_gold(*pairs), text), False)


def _unsaid(draw: Random) -> Probe:
    """Golds that say nothing that could be followed."""
    text = _sentence(draw)
    rule, gold = draw.choice([
        ("unknown instruction", _gold(("moss:green", {}))),
        ("missing parameters", _gold(("length_constraints:number_words", {}))),
        ("missing parameters", _gold(("keywords:existence", None))),
        ("unknown parameters", _gold(("punctuation:no_comma", {"moss": 1}))),
        ("nothing to follow", _gold()),
        ("known and unknown", _gold(("punctuation:no_comma", {}), ("moss:green", {}))),
    ])  # fmt: skip
    return Probe("adversarial", rule, _item(gold, text), False)


def _attempt(draw: Random) -> Probe:
    """Responses that hold nothing but may slip through a rule that counts nothing."""
    name, parameters, _, _ = draw.choice(_INSTRUCTIONS)(draw)
    rule, text = draw.choice([
        ("empty", ""), ("blank", " \n\t\n "),
        ("only thought", "<|inner_prefix|>I follow it.<|inner_suffix|>"),
        ("only a tool call", '<|tools_prefix|>[{"search": {"q": "moss"}}]<|tools_suffix|>'),
    ])  # fmt: skip
    return Probe("adversarial", f"{name}: {rule}", _item(_gold((name, parameters)), text), False)


RIGHT: Sequence[Maker] = [_followed(instruction) for instruction in _INSTRUCTIONS]
WRONG: Sequence[Maker] = [
    maker
    for instruction in _INSTRUCTIONS
    for maker in (_missed(instruction), _attempt, _missed(instruction), _unsaid, _half)
]
