"""Language-switch probes: a reply is wanted in the language of the last turn, or one asked for.

`first`: one question. `switch`: after a question and an answer in another language. `asked`: the
question comes in another language and names the one that is wanted.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

Row = dict[str, Any]
Task = Literal["first", "switch", "asked"]


class Phrases(NamedTuple):
    """Questions in a language, an answer that fits any, and how one asks for the language."""

    questions: tuple[str, ...]
    answer: str
    wanted: str


LANGUAGES: Mapping[str, Phrases] = {
    "en": Phrases(
        ("Why does the sea taste of salt?", "How do I keep bread fresh for a few days?",
         "What should I see on a first visit to Bern?"),
        "That is a good question, and there is more than one answer to it.",
        "Please answer in English."),
    "de": Phrases(
        ("Warum schmeckt das Meer nach Salz?", "Wie bleibt Brot einige Tage lang frisch?",
         "Was sollte ich bei einem ersten Besuch in Bern sehen?"),
        "Das ist eine gute Frage, und es gibt mehr als eine Antwort darauf.",
        "Bitte antworte auf Deutsch."),
    "fr": Phrases(
        ("Pourquoi la mer a-t-elle un goût de sel ?",
         "Comment garder le pain frais pendant quelques jours ?",
         "Que faut-il voir lors d'une première visite à Berne ?"),
        "C'est une bonne question, et il y a plus d'une réponse possible.",
        "Réponds en français, s'il te plaît."),
    "it": Phrases(
        ("Perché il mare sa di sale?", "Come si conserva fresco il pane per qualche giorno?",
         "Che cosa dovrei vedere nella mia prima visita a Berna?"),
        "È una buona domanda, e c'è più di una risposta possibile.",
        "Rispondi in italiano, per favore."),
    "es": Phrases(
        ("¿Por qué el mar sabe a sal?", "¿Cómo se mantiene fresco el pan durante unos días?",
         "¿Qué debería ver en mi primera visita a Berna?"),
        "Es una buena pregunta, y hay más de una respuesta posible.",
        "Responde en español, por favor."),
    "pt": Phrases(
        ("Por que o mar tem gosto de sal?", "Como se mantém o pão fresco por alguns dias?",
         "O que devo ver na minha primeira visita a Berna?"),
        "É uma boa pergunta, e há mais de uma resposta possível.",
        "Responda em português, por favor."),
    "nl": Phrases(
        ("Waarom smaakt de zee naar zout?", "Hoe houd ik brood een paar dagen vers?",
         "Wat moet ik zien bij een eerste bezoek aan Bern?"),
        "Dat is een goede vraag, en er is meer dan één antwoord op.",
        "Antwoord alsjeblieft in het Nederlands."),
    "ru": Phrases(
        ("Почему морская вода солёная?", "Как сохранить хлеб свежим несколько дней?",
         "Что посмотреть в Берне, если я там впервые?"),
        "Это хороший вопрос, и на него есть несколько ответов.",
        "Ответь, пожалуйста, по-русски."),
    "ja": Phrases(
        ("海の水はなぜ塩辛いのですか。", "パンを数日間新鮮に保つにはどうすればいいですか。",
         "ベルンを初めて訪れるとき、何を見るべきですか。"),
        "それは良い質問です。答えは一つではありません。", "日本語で答えてください。"),
    "zh": Phrases(
        ("海水为什么是咸的？", "怎样让面包保持几天新鲜？", "第一次去伯尔尼应该看什么？"),
        "这是个好问题，答案不止一个。", "请用中文回答。"),
}  # fmt: skip


class Languages(BaseModel):
    """`holdout` rows, evenly over `tasks`, and in each of them over `languages`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=1)
    tasks: tuple[Task, ...] = Field(default=get_args(Task), min_length=1)
    languages: tuple[str, ...] = Field(default=tuple(LANGUAGES), min_length=2)


def rows(seed: int, asked: Languages) -> list[Row]:
    """The rows, the tasks in turn; ValueError names a language that is not known."""
    if unknown := [code for code in asked.languages if code not in LANGUAGES]:
        raise ValueError(f"no questions in {unknown[0]!r}; known: {', '.join(LANGUAGES)}")
    return [_row(seed, number, asked) for number in range(asked.holdout)]


def _row(seed: int, number: int, asked: Languages) -> Row:
    tasks, codes = asked.tasks, asked.languages
    task, code = tasks[number % len(tasks)], codes[number // len(tasks) % len(codes)]
    draw = random.Random(f"language {seed} {task} {number}")
    other = draw.choice([each for each in codes if each != code])
    said = MAKERS[task](draw, LANGUAGES[code], LANGUAGES[other])
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    return {
        "messages": messages, "tools": [], "deliberation": False, "language": code, "task": task,
    }  # fmt: skip


def _first(draw: random.Random, wanted: Phrases, other: Phrases) -> list[str]:
    return [draw.choice(wanted.questions)]


def _switch(draw: random.Random, wanted: Phrases, other: Phrases) -> list[str]:
    before, after = draw.sample(range(len(wanted.questions)), 2)
    return [other.questions[before], other.answer, wanted.questions[after]]


def _asked(draw: random.Random, wanted: Phrases, other: Phrases) -> list[str]:
    return [f"{draw.choice(other.questions)} {wanted.wanted}"]


MAKERS: Mapping[Task, Callable[[random.Random, Phrases, Phrases], list[str]]] = {
    "first": _first,
    "switch": _switch,
    "asked": _asked,
}
"""What is said, user first."""
