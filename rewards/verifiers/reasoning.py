"""Tasks of reasoning-gym, scored as the package prescribes: by the generator that made the entry.

The answer is what stands in the last <answer> tags outside the deliberation, as the package takes
it out; without one there is no answer, and the generator scores that too. Scores lie between 0 and
1, and many generators give a little for a wrong answer. What the package cannot score makes the
verifier abstain: that says nothing of the response. Where the package would evaluate an answer as
Python, one that could call something is not shown to it: it counts as none.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import DATASETS, create_dataset
from reasoning_gym.utils import extract_answer

from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import read_turn
from rewards.verifiers import Canary, evaluated
from rewards.verifiers.problem import gold_problem, problem


class Entry(BaseModel):
    """A question as its generator made it, with the answer and what else scoring needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str | None
    metadata: dict[str, JsonValue]


class Gold(BaseModel):
    """The generator, its settings, and the entry asked about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    entry: Entry


class Parameters(BaseModel):
    """What an item may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: Literal["given", "right"] = Field(
        "given", description="the generator's score, or 1 if that is 1 and else 0"
    )


RUNS: Literal["worker"] = "worker"
GOLD: TypeAdapter[Gold] = TypeAdapter(Gold)
PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)
DISTRIBUTIONS: Sequence[str] = ("reasoning-gym", "sympy")

_FEEDBACK = {"no_answer": "no answer was given between <answer> tags", "wrong": "it is not right"}


def verify(item: Item) -> Verdict:
    """The generator's score of the answer; abstains where it has none to give."""
    try:
        parameters = PARAMETERS.validate_python(item.parameters)
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault, Parameters.model_fields))
    try:
        gold = GOLD.validate_python(item.gold)
    except ValidationError as fault:
        return abstained(item, "bad_gold", gold_problem(fault, item.gold, union=False))
    if item.response is None:
        return abstained(item, "bad_item", "give `response`")
    if gold.generator not in DATASETS:
        return abstained(item, "bad_gold", f"reasoning-gym has no generator {gold.generator!r}")
    answer = _shown(gold.generator, extract_answer(read_turn(item.response, own_output=True).text))
    try:
        score = _score(gold, answer)
    except Exception as fault:  # noqa: BLE001 - a hundred generators, any of which may raise
        return abstained(item, "unscorable", f"{gold.generator}: {type(fault).__name__}: {fault}")
    if not 0 <= score <= 1:
        return abstained(item, "unscorable", f"{gold.generator} gave a score of {score}")
    return _verdict(item, score, answer, parameters)


def _shown(generator: str, answer: str | None) -> str | None:
    """What the generator sees of an answer."""
    if answer is None or generator not in evaluated.GENERATORS:
        return answer
    return answer if evaluated.harmless(generator, answer) else None


def _score(gold: Gold, answer: str | None) -> float:
    made = _generator(gold.generator, json.dumps(gold.settings, sort_keys=True))
    entry = gold.entry.model_dump() | {"metadata": restored(gold.entry.metadata)}
    return float(made.score_answer(answer, entry))


@functools.lru_cache(maxsize=64)
def _generator(name: str, settings: str) -> ProceduralDataset:
    return create_dataset(name, size=1, seed=0, **json.loads(settings))


def restored(value: Any) -> Any:
    """`value` with the tuples and the keys that JSON does not have; see `posttrain.data.packaged`.

    {"tuple": [...]} stands for a tuple, {"pairs": [[key, value], ...]} for any other mapping.
    """
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"tuple"}:
        return tuple(restored(each) for each in value["tuple"])
    if value.keys() == {"pairs"}:
        return {restored(key): restored(each) for key, each in value["pairs"]}
    return {key: restored(each) for key, each in value.items()}


def _verdict(item: Item, score: float, answer: str | None, parameters: Parameters) -> Verdict:
    if score == 1:
        return scored(item, 1.0)
    reason = "no_answer" if answer is None else "wrong"
    given = score if parameters.score == "given" else 0.0
    return scored(item, given, reason, feedback=_FEEDBACK[reason])


def _canary(name: str, answer: str, score: float) -> Canary:
    entry: JsonValue = {"question": "State 2 + 2.", "answer": "4", "metadata": {}}
    gold: JsonValue = {"generator": "chain_sum", "entry": entry}
    response = f"It is <answer>{answer}</answer>"
    return Canary(
        item=Item(id=name, verifier="reasoning", response=response, gold=gold), score=score
    )


CANARIES = [_canary("right", "4", 1.0), _canary("wrong", "", 0.0)]
