"""What a recipe may say of who judges: a verifier, or a reward model."""

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from posttrain.charter.asking import RULES
from posttrain.names import Name


class JudgeConfig(BaseModel):
    """Who judges: a verifier of the reward service, by which charter and articles.

    Without `articles` all count. `parameters` go with each request, beside what a verifier of
    charters is told: prompt, charter and its digest. `calibrated` names the stage that must have
    found the judge good enough.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    verifier: Name
    charter: Name | None = None
    articles: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    calibrated: Name | None = None

    @model_validator(mode="after")
    def _has_its_charter(self) -> Self:
        if self.charter is None and (self.articles or self.verifier == RULES):
            raise ValueError("articles and the verifier rules are of a charter: name the charter")
        if self.articles and self.verifier != RULES:
            raise ValueError(
                f"verifier {self.verifier} reads the whole charter: articles are for {RULES} only"
            )
        return self

    def inputs(self) -> dict[str, str]:
        """Role -> node: the charter and the calibration, where there are any."""
        named = {"charter": self.charter, "calibration": self.calibrated}
        return {role: node for role, node in named.items() if node}


class RewardModelConfig(BaseModel):
    """A sequence classifier with one output that scores completions, `batch` at a time, on a CPU
    with `threads`.

    `path` is its Hugging Face folder, from the recipe's; `digest` is that of its parts, as
    `posttrain adopt` prints it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(min_length=1)]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    batch: PositiveInt = 8
    threads: PositiveInt = 1
