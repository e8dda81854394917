"""A new Apertus model from a few numbers; the defaults are those of models that train in minutes.

Small models learn the quickstart's tasks only with a short RoPE base, a wide initialisation and
amplified query and key norms; a large model states its own.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from posttrain.training.rope import RopeConfig

if TYPE_CHECKING:
    from transformers import ApertusForCausalLM, PreTrainedTokenizerBase


class InitializerConfig(BaseModel):
    """Standard `deviation` of weights, and the starting gain of the query and key norms."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deviation: PositiveFloat = 0.06
    query_key_gain: PositiveFloat = 1.5


class ModelConfig(BaseModel):
    """Sizes of a decoder; float32, embeddings tied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    architecture: Literal["apertus"]
    hidden: PositiveInt
    layers: PositiveInt
    heads: PositiveInt
    feed_forward: PositiveInt
    vocabulary: PositiveInt
    context: PositiveInt = 2048
    rope: RopeConfig = RopeConfig(theta=200)
    initializer: InitializerConfig = InitializerConfig()


def build(
    config: ModelConfig, tokenizer: "PreTrainedTokenizerBase", seed: int
) -> "ApertusForCausalLM":
    """A freshly initialised model; ValueError if the tokenizer has more ids than the vocabulary.

    Projections back into the residual stream are scaled by 1/sqrt(2 layers).
    """
    import torch
    from transformers import ApertusConfig, ApertusForCausalLM

    if len(tokenizer) > config.vocabulary:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} ids, the model a vocabulary of "
            f"{config.vocabulary}; raise model.vocabulary"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ApertusForCausalLM(
            ApertusConfig(
                vocab_size=config.vocabulary,
                hidden_size=config.hidden,
                intermediate_size=config.feed_forward,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.heads,
                max_position_embeddings=config.context,
                rope_parameters=config.rope.parameters(),
                initializer_range=config.initializer.deviation,
                tie_word_embeddings=True,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                dtype="float32",
            )
        )
    _scale(model, config)
    return model


def _scale(model: "ApertusForCausalLM", config: ModelConfig) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            parameter.data.fill_(config.initializer.query_key_gain)
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            parameter.data.mul_((2 * config.layers) ** -0.5)
