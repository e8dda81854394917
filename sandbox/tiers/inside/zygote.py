"""The slot's warm interpreter: forks a program for each run, into its place.

It is `python FILE` that stops on its way, while it imports `sitecustomize`. Each program is a fork
that goes on from there, so that the interpreter itself runs the program, as it always would: its
`__main__`, tracebacks, exit code, flushing, and the whole of the main thread's stack.

It never sees a program, an input or an output, so there is none in the memory of the next.

While a program runs it stands still: each page that it wrote to would first have to be copied.

Link to the supervisor (packets): any at the start, once it is warm; then for each run one of no
meaning, and one for the program's own process, with descriptors [run socket, gate, stdin, stdout,
stderr, channel if there is one]. Answered by `{first}`, the number of the first process of the
program's namespace, or else the program's; at the end of the program's own first process by its
`{status}`; and, once its place is shut, by `{cpu}`, the seconds it all took. It ends with the link.
"""

import json
import marshal
import os
import resource
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from sandbox.tiers.inside import frames, program, warm
from sandbox.tiers.inside.place import HOME, Fresh

_PACKET = 4096
_ROOM = socket.CMSG_SPACE(6 * 4)  # Of as many descriptors as there may be.


def serve(link: socket.socket, place: Fresh) -> None:
    """Serve runs; returns only in a program's process."""
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    rules = warm.rules()
    warm.warm_up()
    link.send(b"warm")
    while link.recv(_PACKET):
        before = _used()
        waiting = place.open()
        pid = os.fork()
        if pid == 0:
            return _become(link, place, proc, rules)
        _say(link, {"first": waiting or pid})
        status = os.waitpid(pid, 0)[1]
        _say(link, {"status": status})
        place.shut(waiting)
        _say(link, {"cpu": _used() - before})
    os._exit(0)


def _become(link: socket.socket, place: Fresh, proc: int, rules: bytes) -> None:
    """In the program's process: make its place, and return about to run it."""
    run, gate, stdin, stdout, stderr, *channel = _given(link)
    try:
        order = _unpacked(gate)
        files = frames.receive_parts(partial(os.read, run), order)
        place.enter(order["limits"]["files"] + sum(order["sizes"]))
        place.put(dict(zip(order["files"], files, strict=True)))
        if order["keep"]:
            _hand_over(os.open(HOME, os.O_PATH | os.O_DIRECTORY), gate)
    except BaseException as fault:  # noqa: BLE001 - whatever it is, the program must not run.
        os.write(gate, program.described(fault))
        os._exit(1)
    given = program.Streams(stdin, stdout, stderr, gate, channel[0] if channel else None)
    program.begin(order, given, place, proc, rules)


def packed(order: dict[str, Any]) -> bytes:
    """An order as it goes through the gate."""
    content = marshal.dumps(order)
    return frames.LENGTH.pack(len(content)) + content


def _unpacked(gate: int) -> dict[str, Any]:
    """The order; by means that touch less memory than JSON's, as each page is copied."""
    read = partial(os.read, gate)
    size = frames.LENGTH.unpack(frames.exactly(read, frames.LENGTH.size))[0]
    order: dict[str, Any] = marshal.loads(frames.exactly(read, size))
    return order


def _given(link: socket.socket) -> memoryview:
    """The descriptors of the next packet."""
    _, ancillary, _, _ = link.recvmsg(_PACKET, _ROOM)
    return memoryview(ancillary[0][2]).cast("i")


def _hand_over(descriptor: int, gate: int) -> None:
    with socket.socket(fileno=os.dup(gate)) as end:
        socket.send_fds(end, [b"home"], [descriptor])


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _say(link: socket.socket, message: Mapping[str, Any]) -> None:
    link.send(json.dumps(message).encode())
