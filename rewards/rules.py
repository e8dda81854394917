"""A rule on a text that needs no judgement: where it is broken, there is one piece of advice."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from rewards.schema import Wire

Words = list[Annotated[str, Field(min_length=1, max_length=200)]]


class Rule(Wire):
    """All that is stated must hold; upper and lower case are one.

    The text begins with one of `begins_with`, ends with one of `ends_with`, and has one of `says`
    and none of `avoids` somewhere. `advice` is what is told to who breaks it.
    """

    begins_with: Words = Field(default_factory=list, max_length=100)
    ends_with: Words = Field(default_factory=list, max_length=100)
    says: Words = Field(default_factory=list, max_length=100)
    avoids: Words = Field(default_factory=list, max_length=100)
    advice: str = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not (self.begins_with or self.ends_with or self.says or self.avoids):
            raise ValueError("a rule states begins_with, ends_with, says or avoids")
        if not self.advice.strip():
            raise ValueError("advice is blank")
        return self

    def keeps(self, text: str) -> bool:
        """Whether `text`, without the space around it, keeps the rule; empty text does not."""
        text = text.strip().casefold()
        if not text:
            return False
        wanted = [
            (text.startswith, self.begins_with), (text.endswith, self.ends_with),
            (text.__contains__, self.says),
        ]  # fmt: skip
        if any(words and not any(has(word.casefold()) for word in words) for has, words in wanted):
            return False
        return not any(word.casefold() in text for word in self.avoids)
