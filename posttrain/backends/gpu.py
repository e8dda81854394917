"""The GPU profile: verl's own defaults (bf16, FSDP2, NCCL weight sync). Not run by our tests."""

from posttrain.backends import Profile

_ACTOR = "actor_rollout_ref.actor"

PROFILE = Profile(
    name="gpu",
    environment={
        # verl 0.9.1 passes print()'s flush= to logger.info in separate_async: TypeError below WARN.
        "VERL_LOGGING_LEVEL": "WARN",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    },
    engine={
        "trainer.device": "cuda",
        f"{_ACTOR}.strategy": "fsdp2",
        f"{_ACTOR}.fsdp_config.strategy": "fsdp2",
        "actor_rollout_ref.model.use_remove_padding": True,
    },
    rollout={
        "actor_rollout_ref.rollout.dtype": "bfloat16",
        "actor_rollout_ref.rollout.checkpoint_engine.backend": "nccl",
    },
)
