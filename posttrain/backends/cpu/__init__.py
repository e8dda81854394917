"""The CPU profile: stock verl and vLLM on a laptop, fp32, one thread per process.

`platform` is verl's platform plug-in, `weights` carries trained weights to the rollout server,
`vllm_worker` keeps vLLM's linear weights replaceable.
"""

from posttrain.backends import Profile, RayResources

_ACTOR = "actor_rollout_ref.actor"
_MODEL = "actor_rollout_ref.model"
_ROLLOUT = "actor_rollout_ref.rollout"
_FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}

PROFILE = Profile(
    name="cpu",
    environment={
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "posttrain.backends.cpu.platform",
        "VERL_USE_EXTERNAL_PLUGINS": "none",
        # verl registers its FSDP engines for accelerators only; this names which entry to take.
        "VERL_ENGINE_DEVICE": "cuda",
        # verl 0.9.1 passes print()'s flush= to logger.info in separate_async: TypeError below WARN.
        "VERL_LOGGING_LEVEL": "WARN",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Lets the worker run inside the engine core, one process less; the server keeps its own.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "TOKENIZERS_PARALLELISM": "false",
    },
    ray=RayResources(cpus=16, accelerators=2),
    engine={
        "trainer.device": "cpu",
        f"{_ACTOR}.strategy": "fsdp2",
        f"{_ACTOR}.fsdp_config.strategy": "fsdp2",
        f"{_ACTOR}.fsdp_config.mixed_precision": _FP32,
        f"{_ACTOR}.fsdp_config.use_torch_compile": False,
        f"{_ACTOR}.use_torch_compile": False,
        f"{_MODEL}.override_config.attn_implementation": "sdpa",
        f"{_MODEL}.use_remove_padding": False,
        f"{_MODEL}.enable_gradient_checkpointing": False,
    },
    rollout={
        f"{_ROLLOUT}.dtype": "float32",
        f"{_ROLLOUT}.enforce_eager": True,
        f"{_ROLLOUT}.free_cache_engine": False,
        f"{_ROLLOUT}.enable_sleep_mode": False,
        f"{_ROLLOUT}.checkpoint_engine.backend": "gloo",
        f"{_ROLLOUT}.checkpoint_engine.custom_backend_module": "posttrain.backends.cpu.weights",
        f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 32,
        f"{_ROLLOUT}.engine_kwargs.vllm.distributed_executor_backend": "uni",
        f"{_ROLLOUT}.engine_kwargs.vllm.num_gpu_blocks_override": 1024,
        f"{_ROLLOUT}.engine_kwargs.vllm.worker_extension_cls": (
            "posttrain.backends.cpu.vllm_worker.ReloadableWorker"
        ),
    },
    forks_workers=True,
)
