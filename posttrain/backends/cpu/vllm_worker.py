"""vLLM worker extension for CPUs: weights stay replaceable after the model is loaded.

vLLM's CPU backend packs each linear layer's weight for oneDNN and drops the original, so that a
later weight update finds an empty parameter; and it keeps xIELU in bfloat16. Importing this module
(vLLM does, in its worker, before the model is built) keeps plain weights and multiplies with them,
and xIELU in the model's dtype. Where the module is imported in the server already (a zygote does),
the engine core is forked from it.
"""

import multiprocessing
from typing import Any

import torch
import vllm.model_executor.layers.activation as activation
import vllm.model_executor.layers.utils as linear_layers
import vllm.v1.engine.utils as engine_utils
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

VLLM_VERSION = "0.28.0"
"""The vLLM release this patch was written against."""


def patch_linear_packing() -> None:
    """vLLM packs CPU linear weights at load and frees them: an update would have no target."""

    def keep_plain(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.__dict__["cpu_linear"] = torch.nn.functional.linear

    linear_layers.dispatch_cpu_unquantized_gemm = keep_plain


def patch_engine_start() -> None:
    """On CPUs vLLM spawns its engine core, which then imports everything once more.

    A fork serves: the engine core talks to its parent by socket and never to Ray.
    """
    engine_utils.get_mp_context = lambda: multiprocessing.get_context("fork")


def patch_xielu_precision() -> None:
    """vLLM keeps xIELU's parameters in bfloat16 whatever the model is in.

    Loading would round them, and rollouts would sample from a policy 1e-3 nats off the trainer's.
    """
    build = activation.XIELU.__init__

    def in_the_model_s_dtype(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **{"dtype": torch.get_default_dtype(), **kwargs})

    activation.XIELU.__init__ = in_the_model_s_dtype


patch_linear_packing()
patch_engine_start()
patch_xielu_precision()


class ReloadableWorker(vLLMColocateWorkerExtension):  # type: ignore[misc]  # verl ships no types
    """verl's own extension, in a module that has patched vLLM first."""
