"""The rule judge: a charter whose articles are rules that need no judgement. Deterministic, inline.

`parts` says of each article asked about whether it is kept, the score is 1 if all are. `feedback`
is the advice of the first article that is not. The item names the charter by the digest of its
text, so that a verdict can be traced to the very words. The deliberation is not judged.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic import field_validator as validator

from rewards.rules import Rule
from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import read_turn
from rewards.verifiers import Canary
from rewards.verifiers.problem import problem


class Charter(BaseModel):
    """The charter that the rules are from: its name, and the SHA-256 of its text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Article(BaseModel):
    """An article and its rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=64)
    rule: Rule


class Parameters(BaseModel):
    """The articles asked about, in the order in which they are told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    charter: Charter
    articles: list[Article] = Field(min_length=1, max_length=64)

    @validator("articles")
    @classmethod
    def _name_each_article_once(cls, articles: list[Article]) -> list[Article]:
        if len({each.id for each in articles}) < len(articles):
            raise ValueError("name each article once")
        return articles


RUNS = "inline"
GOLD: TypeAdapter[None] = TypeAdapter(None)
PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)
DISTRIBUTIONS: Sequence[str] = ()


def verify(item: Item) -> Verdict:
    """The verdict on `item.response`; abstained if the item does not say by which rules."""
    try:
        parameters = PARAMETERS.validate_python(item.parameters)
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault, Parameters.model_fields))
    if item.gold is not None:
        return abstained(item, "bad_item", "gold: the rule judge takes none; leave it out")
    if item.response is None:
        return abstained(item, "bad_item", "there is no `response` to judge")
    return _verdict(item, parameters.articles, read_turn(item.response, own_output=True).text)


def _verdict(item: Item, articles: Sequence[Article], text: str) -> Verdict:
    broken = [each for each in articles if not each.rule.keeps(text)]
    ids = {each.id for each in broken}
    parts = {each.id: float(each.id not in ids) for each in articles}
    if not broken:
        return scored(item, 1.0, parts=parts)
    reason = "broken" if text.strip() else "empty"
    return scored(item, 0.0, reason, parts=parts, feedback=broken[0].rule.advice)


def _canary(name: str, response: str, score: float) -> Canary:
    article: JsonValue = {"id": "a", "rule": {"ends_with": ["Bye."], "advice": "Say goodbye."}}
    item = Item(
        id=name, verifier="rules", response=response,
        parameters={"charter": {"name": "canary", "sha256": "0" * 64}, "articles": [article]},
    )  # fmt: skip
    return Canary(item=item, score=score)


CANARIES = [_canary("kept", "It is 4. Bye.", 1.0), _canary("broken", "It is 4.", 0.0)]
