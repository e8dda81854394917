"""The Ray a run executes on: one embedded on this machine, or a cluster by its address.

Stage tasks ask for `cores`, a resource of our own that counts real CPU cores. Ray's own CPUs and
GPUs stay logical on a laptop, since verl's actors ask for more of them than a laptop has.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Ray reads this when first imported. It would print its own account of each worker that dies, in
# the midst of ours; what we know of it is in the journal.
os.environ["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."

import ray

from posttrain.backends import Profile
from posttrain.services import ServiceFailed

_REACHED_WITHIN = 5.0
_LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by the outer address, for servers to bind.
_OBJECT_STORE = 256 << 20


@contextmanager
def connected(address: str | None, backend: Profile) -> Iterator[int]:
    """A Ray session; yields the number of real cores. ValueError if `address` is unreachable.

    The backend's environment reaches every worker: inherited where Ray is embedded, sent with
    the job elsewhere. An embedded Ray declares the backend's logical resources.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address:
        _join(address, backend)
    else:
        _embed(backend)
    try:
        yield _cores(address)
    finally:
        ray.shutdown()


def _join(address: str, backend: Profile) -> None:
    try:
        _probe(address)
        ray.init(
            address=address, runtime_env={"env_vars": dict(backend.environment)},
            logging_level=logging.ERROR, log_to_driver=False,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError) as fault:
        raise ValueError(
            f"Ray at {address} cannot be reached ({_first_line(fault)}); check the address, or "
            "leave out --ray-address to run on this machine"
        ) from fault


def _probe(address: str) -> None:
    """Fail in seconds, as Ray itself retries for minutes; `auto` has nothing to probe."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_REACHED_WITHIN).close()


def _embed(backend: Profile) -> None:
    os.environ.update(backend.environment)
    try:
        _start(backend)
    except Exception as fault:
        if type(fault) is not Exception:
            raise
        # Ray's bare class says that the machine was too slow for it.
        told = _first_line(fault)
        raise ServiceFailed(
            f"Ray did not start here ({told}); run the same command again"
        ) from fault


def _start(backend: Profile) -> None:
    logical = backend.ray
    ray.init(
        num_cpus=logical.cpus if logical else None,
        num_gpus=logical.accelerators if logical else None,
        resources={"cores": os.cpu_count() or 1},
        object_store_memory=_OBJECT_STORE, include_dashboard=False,
        _node_ip_address=_LOOPBACK, logging_level=logging.ERROR, log_to_driver=False,
        # Ray would start a Python process for each logical CPU: far more than there are cores.
        _system_config={"prestart_worker_first_driver": False, "enable_worker_prestart": False},
    )  # fmt: skip


def _cores(address: str | None) -> int:
    total = ray.cluster_resources()
    if "cores" in total:
        return int(total["cores"])
    if address:
        raise ValueError(
            f"the Ray cluster at {address} declares no `cores`; start its nodes with "
            "--resources='{\"cores\": N}', N being the CPU cores stages may use"
        )
    raise AssertionError("an embedded Ray declares its cores")


def _first_line(fault: BaseException) -> str:
    return (str(fault).splitlines() or [fault.__class__.__name__])[0]
