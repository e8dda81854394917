"""The process that workers are forked from: verifiers imported and warm, one thread, no network.

A fork costs milliseconds where a cold start costs a second, so killing a worker is cheap. No
process outlives its parent: the kernel kills a worker with the zygote and the zygote with the
service. Only the zygote forks, kills and reaps workers, so a pid is never used after its end.

Protocol on the control socket, in JSON: first a list of profiles (see rewards.verifiers.Profile)
once all is warm, or `{"fault": text}`, cut into packets of `PACKET` bytes and ended by the packet
`END`; then one message a packet: `{"fork": null}` with a socket attached is answered `{"pid": n}`,
and `{"kill": n}` is answered `{"pid": n}` once the worker is gone.
On a worker's socket: frames of a 4-byte big-endian length and JSON. Items come in, ahead of their
time; for each in its turn `{"verdict": ...}` or `{"fault": text}` goes out, and for a list of items
`{"verdicts": [...]}` or the fault.
"""

import ctypes
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping

from pydantic import TypeAdapter

from rewards.schema import Item, Verdict
from rewards.verifiers import Profile, load

PACKET = 32768
END = b"{}"
HEADER = struct.Struct(">I")
PROFILES = TypeAdapter(list[Profile])
_ITEMS = TypeAdapter(list[Item])
_VERDICTS = TypeAdapter(list[Verdict])
_MEMORY = 4 * 2**30
_READ = 2**18
_PR_SET_PDEATHSIG = 1

Checks = Mapping[str, Callable[[Item], Verdict]]


def main() -> int:
    """Load the verifiers named in argv[3], then serve forks until the service closes the socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the service's to handle.
    loaded = {}
    for name, module in json.loads(sys.argv[3]).items():
        try:
            loaded[name] = load(name, module)
        except Exception as fault:  # noqa: BLE001 - whatever a verifier's import raises is reported
            _announce(control, _fault(fault, f"--verifiers {name}={module}: "))
            return 1
    gc.collect()
    gc.freeze()  # Keeps the collector from copying pages that workers share.
    _announce(control, PROFILES.dump_json([profile for _, profile in loaded.values()]))
    local = {name: module for name, (module, profile) in loaded.items() if profile.runs != "remote"}
    checks: Checks = {name: module.verify for name, module in local.items()}
    workers: set[int] = set()
    while _serve_one(control, checks, workers):
        pass
    return 0


def _announce(control: socket.socket, text: bytes) -> None:
    for at in range(0, len(text), PACKET):
        control.send(text[at : at + PACKET])
    control.send(END)


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process with `parent`; exit if that is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _serve_one(control: socket.socket, checks: Checks, workers: set[int]) -> bool:
    """Carry out one order; False when the service has gone."""
    message, descriptors, _, _ = socket.recv_fds(control, PACKET, 1)
    if not message:
        return False
    order = json.loads(message)
    if "kill" in order:
        pid = order["kill"]
        workers.remove(pid)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        control.send(json.dumps({"pid": pid, "status": status}).encode())
    else:
        pid = _fork(control, descriptors[0], checks)
        os.close(descriptors[0])
        workers.add(pid)
        control.send(json.dumps({"pid": pid}).encode())
    return True


def _fork(control: socket.socket, descriptor: int, checks: Checks) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        _die_with_parent(parent)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _work(socket.socket(fileno=descriptor), checks)
    finally:
        os._exit(0)  # Never return into the zygote's loop.


def _work(channel: socket.socket, checks: Checks) -> None:
    """Answer items one by one until the service closes the channel."""
    unread = b""
    while part := channel.recv(_READ):
        unread += part
        at = 0
        while len(unread) >= (body := at + HEADER.size):
            end = body + HEADER.unpack_from(unread, at)[0]
            if len(unread) < end:
                break
            reply = _check(unread[body:end], checks)
            channel.sendall(HEADER.pack(len(reply)) + reply)
            at = end
        unread = unread[at:]


def _check(body: bytes, checks: Checks) -> bytes:
    started = time.perf_counter()
    try:
        if body.startswith(b"["):
            verdicts = [checks[item.verifier](item) for item in _ITEMS.validate_json(body)]
            return b'{"verdicts":' + _VERDICTS.dump_json(verdicts) + b"}"
        item = Item.model_validate_json(body)
        verdict = checks[item.verifier](item)
        elapsed = round(1000 * (time.perf_counter() - started), 3)
        own = {"id": item.id, "verifier": item.verifier, "elapsed_ms": elapsed}
        verdict = verdict.model_copy(update=own)
        return b'{"verdict":' + verdict.model_dump_json().encode() + b"}"
    except Exception as fault:  # noqa: BLE001 - a verifier's fault is reported, never scored
        return _fault(fault)


def _fault(fault: Exception, where: str = "") -> bytes:
    return json.dumps({"fault": f"{where}{type(fault).__name__}: {fault}"[:4000]}).encode()


if __name__ == "__main__":
    sys.exit(main())
