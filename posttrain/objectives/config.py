"""What a recipe may say of each objective; nothing here imports torch."""

from typing import Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from posttrain.quantities import Share


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DPOConfig(_Strict):
    """`beta` (per token with `length_normalized`) and the share of labels held to be flipped.

    `nll` weighs the chosen side's own negative log-likelihood per token, which keeps it likely in
    itself and not only more likely than the other.
    """

    beta: PositiveFloat = 0.1
    length_normalized: bool = False
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    nll: float = Field(default=0.0, ge=0)


class QRPOConfig(_Strict):
    """`beta`, with `length_normalized` beta / tokens, but at most `cap` (the seed's 0.1).

    Short completions would have a large beta and with it a large gradient.
    """

    beta: PositiveFloat
    length_normalized: bool = True
    cap: PositiveFloat = 0.1

    @model_validator(mode="after")
    def _uncapped(self) -> Self:
        if not self.length_normalized and self.beta > self.cap:
            raise ValueError(
                f"beta {self.beta} is above cap {self.cap}: lower beta, raise cap or set"
                " length_normalized"
            )
        return self


Branch = Literal["forward_kl", "reverse_kl", "jsd", "sampled_reverse_kl"]


class SDPOConfig(_Strict):
    """The divergence between student and teacher, and over what.

    `mode`: `full` vocabulary, `top_k` (the student's most likely `top_k` tokens, what is left in
    one more bucket or, without `add_tail`, left out and the rest renormalised) or `sampled` (the
    student's own token, reverse KL only). `alpha` 0 is forward KL, 1 is reverse KL, in between
    generalised JSD, which is not their interpolation. `is_clip` bounds the importance weight;
    without it there is none. `temperature` is that of the rollouts.
    """

    mode: Literal["full", "top_k", "sampled"] = "top_k"
    alpha: Share = 0.5
    top_k: PositiveInt = 100
    add_tail: bool = True
    is_clip: PositiveFloat | None = 2.0
    temperature: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mode == "sampled" and self.alpha != 1:
            raise ValueError(f"mode sampled is reverse KL: set alpha to 1, not {self.alpha}")
        idle = {"top_k", "add_tail"} & self.model_fields_set
        if self.mode != "top_k" and idle:
            raise ValueError(f"mode {self.mode} has no {sorted(idle)[0]}: remove it")
        return self

    @property
    def branch(self) -> Branch:
        """Which formula runs; belongs in the run's record."""
        if self.mode == "sampled":
            return "sampled_reverse_kl"
        ends: dict[float, Branch] = {0.0: "forward_kl", 1.0: "reverse_kl"}
        return ends.get(self.alpha, "jsd")


class TeacherConfig(_Strict):
    """How the teacher follows the student: not at all, as a moving average, or by its logits.

    `rate` is the student's share: in each update of the weights (`ema`) or in the logits
    (`trust_region`).
    """

    regularization: Literal["frozen", "ema", "trust_region"]
    rate: Share | None = None

    @model_validator(mode="after")
    def _rated(self) -> Self:
        if (self.regularization == "frozen") != (self.rate is None):
            verb = "has no" if self.regularization == "frozen" else "needs a"
            raise ValueError(f"a teacher by {self.regularization} {verb} rate")
        return self


class FollowUpConfig(_Strict):
    """Tokens at a completion's start without signal; bounds of the online ratio around 1."""

    ignore_first: NonNegativeInt = 2
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: PositiveFloat = 0.2
