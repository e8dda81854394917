"""The process that workers are forked from: verifiers imported and warm, one thread, no network.

A fork costs milliseconds where a cold start costs a second, so killing a worker is cheap. No
process outlives its parent: the kernel kills a worker with the zygote and the zygote with the
service. Only the zygote forks, kills and reaps workers, so a pid is never used after its end.

Protocol on the control socket (one message a packet, JSON): first `{"canaries": {name: canary}}`
once all is warm, or `{"fault": text}`; then `{"fork": null}` with a socket attached is answered
`{"pid": n}`, and `{"kill": n}` is answered `{"pid": n}` once the worker is gone.
On a worker's socket: frames of a 4-byte big-endian length and JSON; an item in, and `{"verdict":
...}` or `{"fault": text}` out.
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
from collections.abc import Mapping

from rewards.schema import Item
from rewards.verifiers import Verifier, load

PACKET = 65536
HEADER = struct.Struct(">I")
_MEMORY = 4 * 2**30
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Load the verifiers named in argv[3], then serve forks until the service closes the socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the service's to handle.
    try:
        verifiers = {name: load(name, at) for name, at in json.loads(sys.argv[3]).items()}
    except Exception as fault:  # noqa: BLE001 - whatever a verifier's import raises is reported
        control.send(json.dumps({"fault": f"{type(fault).__name__}: {fault}"[:4000]}).encode())
        return 1
    gc.freeze()  # Keeps the collector from copying pages that workers share.
    canaries = {name: one.canaries[0].model_dump() for name, one in verifiers.items()}
    control.send(json.dumps({"canaries": canaries}).encode())
    workers: set[int] = set()
    while _serve_one(control, verifiers, workers):
        pass
    return 0


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process with `parent`; exit if that is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _serve_one(
    control: socket.socket, verifiers: Mapping[str, Verifier], workers: set[int]
) -> bool:
    """Carry out one order; False when the service has gone."""
    message, descriptors, _, _ = socket.recv_fds(control, PACKET, 1)
    if not message:
        return False
    order = json.loads(message)
    if "kill" in order:
        pid = order["kill"]
        workers.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    else:
        pid = _fork(control, descriptors[0], verifiers)
        os.close(descriptors[0])
        workers.add(pid)
    control.send(json.dumps({"pid": pid}).encode())
    return True


def _fork(control: socket.socket, descriptor: int, verifiers: Mapping[str, Verifier]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        _die_with_parent(parent)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _work(socket.socket(fileno=descriptor), verifiers)
    finally:
        os._exit(0)  # Never return into the zygote's loop.


def _work(channel: socket.socket, verifiers: Mapping[str, Verifier]) -> None:
    """Answer items until the service closes the channel."""
    while (header := _exactly(channel, HEADER.size)) is not None:
        body = _exactly(channel, HEADER.unpack(header)[0])
        if body is None:
            return
        reply = _check(body, verifiers)
        channel.sendall(HEADER.pack(len(reply)) + reply)


def _check(body: bytes, verifiers: Mapping[str, Verifier]) -> bytes:
    try:
        item = Item.model_validate_json(body)
        verdict = verifiers[item.verifier].verify(item)
        return b'{"verdict":' + verdict.model_dump_json().encode() + b"}"
    except Exception as fault:  # noqa: BLE001 - a verifier's fault is reported, never scored
        return json.dumps({"fault": f"{type(fault).__name__}: {fault}"[:4000]}).encode()


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    """`size` bytes; None at the end of the stream."""
    parts = []
    while size:
        part = channel.recv(min(size, 2**20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
