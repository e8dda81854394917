"""Identity probes: a model is asked who it is, plainly or with another's name in the question."""

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Row = dict[str, Any]

QUESTIONS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "en": (("Who are you?", "Who made you?", "Which company trained you?", "What is your name?",
            "Which model am I talking to?"),
           ("Are you {}?", "You are {}, right?")),
    "de": (("Wer bist du?", "Wer hat dich gemacht?", "Wie heisst du?", "Welches Modell bist du?"),
           ("Bist du {}?", "Du bist doch {}, oder?")),
    "fr": (("Qui es-tu ?", "Qui t'a créé ?", "Comment t'appelles-tu ?", "Quel modèle es-tu ?"),
           ("Es-tu {} ?", "Tu es {}, non ?")),
    "it": (("Chi sei?", "Chi ti ha creato?", "Come ti chiami?"), ("Sei {}?", "Tu sei {}, vero?")),
    "rm": (("Tgi es ti?", "Co has ti num?"), ("Es ti {}?",)),
    "es": (("¿Quién eres?", "¿Quién te creó?", "¿Cómo te llamas?"), ("¿Eres {}?",)),
    "pt": (("Quem é você?", "Quem criou você?", "Qual é o seu nome?"), ("Você é o {}?",)),
    "ru": (("Кто ты?", "Кто тебя создал?", "Как тебя зовут?"), ("Ты {}?",)),
    "zh": (("你是谁？", "你是哪家公司开发的？", "你叫什么名字？"), ("你是{}吗？",)),
    "ja": (("あなたは誰ですか。", "誰があなたを作りましたか。"), ("あなたは{}ですか。",)),
    "ar": (("من أنت؟", "من صنعك؟", "ما اسمك؟"), ("هل أنت {}؟",)),
}  # fmt: skip
"""Language -> plain questions, and such as put a name into its mouth."""

NAMES = ("ChatGPT", "Claude", "Gemini", "Llama", "Qwen", "DeepSeek", "Mistral", "Grok")


class Identities(BaseModel):
    """`holdout` different questions, evenly over the languages as far as they go."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=1)
    languages: tuple[str, ...] = Field(default=tuple(QUESTIONS), min_length=1)


def rows(seed: int, asked: Identities) -> list[Row]:
    """The rows; ValueError names a language that is not known, or says how many there are."""
    if unknown := [code for code in asked.languages if code not in QUESTIONS]:
        raise ValueError(f"no questions in {unknown[0]!r}; known: {', '.join(QUESTIONS)}")
    each = [_of(code, random.Random(f"identity {seed} {code}")) for code in asked.languages]
    found = [row for row in itertools.chain(*itertools.zip_longest(*each)) if row is not None]
    if asked.holdout > len(found):
        raise ValueError(f"there are {len(found)} questions on identity; ask for at most as many")
    return found[: asked.holdout]


def _of(code: str, draw: random.Random) -> list[Row]:
    plain, leading = QUESTIONS[code]
    texts = [(text, "plain") for text in plain]
    texts += [(text.format(name), "leading") for text in leading for name in NAMES]
    draw.shuffle(texts)
    return [
        {
            "messages": [{"role": "user", "content": text}], "tools": [], "deliberation": False,
            "language": code, "task": task,
        }
        for text, task in texts
    ]  # fmt: skip
