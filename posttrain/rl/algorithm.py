"""How rewards become a gradient: what a recipe may say of it, and the verl settings it means.

The defaults are the seed run's (facts.md 2.2, 2.3): RLOO advantages without normalisation, GMPO, no
KL term, rollout log-probs as the old ones. Nothing here imports verl.
"""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

ACTOR = "actor_rollout_ref.actor"
_CORRECTION = "algorithm.rollout_correction"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Advantage = Literal["rloo", "grpo", "max_rl"]
"""RLOO: less the mean of the group's others. GRPO: less the mean, over the deviation. MaxRL: less
the mean, over the mean."""

_ESTIMATORS = {"rloo": "rloo_vectorized", "grpo": "grpo", "max_rl": "max_rl"}


class GmpoConfig(_Strict):
    """Geometric-mean policy optimisation; `clip` = (low, high) bounds on token log-ratios."""

    clip: tuple[PositiveFloat, PositiveFloat] = (0.2, 0.28)
    mode: ClassVar[str] = "gmpo"
    aggregation: ClassVar[str] = "token-mean"  # It has no say: GMPO averages over sequences.


class PpoConfig(_Strict):
    """Ratios of tokens clipped to 1 - low, 1 + high; the mean over the batch's tokens."""

    clip: tuple[PositiveFloat, PositiveFloat] = (0.2, 0.2)
    mode: ClassVar[str] = "vanilla"
    aggregation: ClassVar[str] = "token-mean"


class GspoConfig(_Strict):
    """The sequence's mean ratio clipped to 1 - low, 1 + high (arXiv 2507.18071, its bounds)."""

    clip: tuple[PositiveFloat, PositiveFloat] = (3e-4, 4e-4)
    mode: ClassVar[str] = "gspo"
    aggregation: ClassVar[str] = "seq-mean-token-mean"


class LossConfig(_Strict):
    """The policy loss, by name: one of them."""

    gmpo: GmpoConfig | None = None
    ppo: PpoConfig | None = None
    gspo: GspoConfig | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"name one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def named(self) -> GmpoConfig | PpoConfig | GspoConfig:
        """The one that is named."""
        chosen = self.gmpo or self.ppo or self.gspo
        assert chosen is not None
        return chosen


Level = Literal["token", "sequence"]


class TruncatedConfig(_Strict):
    """Truncated importance sampling: weights of at most `at_most`."""

    level: Level
    at_most: PositiveFloat = 2.0


class MaskedConfig(_Strict):
    """Masked importance sampling: what weighs less or more than the `bounds` has no weight."""

    level: Level
    bounds: tuple[PositiveFloat, PositiveFloat] = (0.5, 2.0)

    @model_validator(mode="after")
    def _around_one(self) -> Self:
        low, high = self.bounds
        if not low < 1 < high:
            raise ValueError(f"bounds {low}, {high} must lie around 1")
        return self


class CorrectionConfig(_Strict):
    """How the difference between rollout and training log-probs is weighed, by name.

    The trainer then computes the old log-probs itself, which costs a forward pass a step.
    """

    tis: TruncatedConfig | None = None
    mis: MaskedConfig | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"name one of {', '.join(type(self).model_fields)}")
        return self

    def settings(self) -> dict[str, Any]:
        """verl's settings of rollout correction."""
        if self.tis is not None:
            level, threshold = self.tis.level, str(self.tis.at_most)
        else:
            assert self.mis is not None
            level, threshold = self.mis.level, "_".join(map(str, self.mis.bounds))
        return {
            f"{_CORRECTION}.bypass_mode": False,
            f"{_CORRECTION}.rollout_is": level,
            f"{_CORRECTION}.rollout_is_threshold": threshold,
        }


class ObjectiveConfig(_Strict):
    """Advantage, policy loss, and the correction of what the rollout engine computes differently.

    Without `correction` the rollout's log-probs are the old ones.
    """

    advantage: Advantage = "rloo"
    loss: LossConfig = Field(default_factory=lambda: LossConfig(gmpo=GmpoConfig()))
    correction: CorrectionConfig | None = None

    def settings(self) -> dict[str, Any]:
        """verl's settings, dotted key -> value."""
        loss = self.loss.named
        low, high = loss.clip
        found = {
            "algorithm.adv_estimator": _ESTIMATORS[self.advantage],
            "algorithm.norm_adv_by_std_in_grpo": self.advantage == "grpo",
            "algorithm.use_kl_in_reward": False,
            f"{_CORRECTION}.bypass_mode": True,
            f"{ACTOR}.policy_loss.loss_mode": loss.mode,
            f"{ACTOR}.loss_agg_mode": loss.aggregation,
            f"{ACTOR}.clip_ratio_low": low,
            f"{ACTOR}.clip_ratio_high": high,
            f"{ACTOR}.use_kl_loss": False,
            f"{ACTOR}.entropy_coeff": 0,
        }
        return found | (self.correction.settings() if self.correction else {})
