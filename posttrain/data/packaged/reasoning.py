"""Questions of any generator of reasoning-gym, for the verifier that scores as the package does.

Always holds: which questions are held out is decided by their text, so that no train split of any
seed or recipe has one; a reference answer that does not get full score is never frozen.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from posttrain.data.packaged.encoding import encoded
from posttrain.data.packaged.holding import held_out

PACKAGE = "reasoning-gym"
INSTALL = "reasoning-gym"
SHARE = 0.2
"""Of all questions of a generator that are held out."""

TRIES = 50
"""Questions made for each row wanted, before it is said that there are too few."""

_PIECE = 256
"""Questions made at a time."""

Row = dict[str, Any]


class Questions(BaseModel):
    """`settings` are the generator's; `prompt` is one of the package's system prompts.

    As `dialogues` the rows have the reference answer, for SFT; `parameters` are the verifier's.
    Another `seed` gives other questions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str
    rows: int = Field(default=0, ge=0)
    holdout: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)
    prompt: Literal["DeepSeekZero", "default", "simple", "direct", "chain_of_draft"] = "direct"
    form: Literal["prompts", "dialogues"] = "prompts"
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _asks_for_some(self) -> Self:
        if not self.rows and not self.holdout:
            raise ValueError("give rows, to train on, or holdout, to measure on")
        if self.form == "dialogues" and self.holdout:
            raise ValueError("what is measured on are prompts: leave out holdout or form")
        return self


def rows(seed: int, asked: Questions) -> dict[str, list[Row]]:
    """Distinct questions, by split; ValueError if the generator cannot make as many."""
    wanted = {"train": asked.rows, "holdout": asked.holdout}
    found: dict[str, dict[str, Row]] = {name: {} for name, count in wanted.items() if count}
    for entry in itertools.islice(_entries(seed, asked), TRIES * sum(wanted.values())):
        question = entry["question"]
        split = "holdout" if held_out(question, SHARE) else "train"
        if split in found and len(found[split]) < wanted[split]:
            found[split].setdefault(question, _row(entry, asked))
        if all(len(made) == wanted[name] for name, made in found.items()):
            return {name: list(made.values()) for name, made in found.items()}
    made = ", ".join(f"{len(each)} of {wanted[name]} for {name}" for name, each in found.items())
    raise ValueError(f"{asked.generator} makes too few different questions: {made}")


def _entries(seed: int, asked: Questions) -> Iterator[Row]:
    """What the generator makes, piece by piece; entries that it cannot score are an error."""
    from reasoning_gym.factory import create_dataset

    text = json.dumps([seed, asked.seed, asked.generator, asked.settings], sort_keys=True)
    first = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    for start in itertools.count(first, _PIECE):
        try:
            made = create_dataset(asked.generator, seed=start, size=_PIECE, **asked.settings)
        except (ValueError, TypeError, AssertionError) as fault:
            raise ValueError(f"reasoning-gym: {asked.generator}: {fault}") from None
        for index in range(_PIECE):
            entry = made[index]
            if entry["answer"] is not None and made.score_answer(entry["answer"], entry) != 1:
                raise ValueError(f"{asked.generator}: its own answer to {index} gets no full score")
            yield entry


def _row(entry: Row, asked: Questions) -> Row:
    from reasoning_gym.utils import SYSTEM_PROMPTS

    messages = [
        {"role": "system", "content": SYSTEM_PROMPTS[asked.prompt].strip()},
        {"role": "user", "content": entry["question"]},
    ]
    if asked.form == "dialogues":
        if entry["answer"] is None:
            raise ValueError(f"{asked.generator} gives no answers: there are no dialogues of it")
        messages.append({"role": "assistant", "content": f"<answer>{entry['answer']}</answer>"})
        return {"messages": messages, "tools": [], "deliberation": False}
    gold = {
        "generator": asked.generator, "settings": asked.settings,
        "entry": {key: encoded(entry[key]) for key in ("question", "answer", "metadata")},
    }  # fmt: skip
    return {
        "messages": messages, "tools": [], "deliberation": False, "verifier": "reasoning",
        "gold": gold, "parameters": asked.parameters, "task": asked.generator,
    }  # fmt: skip
