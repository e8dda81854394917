"""Stands in for the Python interpreter when Ray starts a worker: has the zygote fork it instead.

Run as `python -I -S enter.py SOCKET WORKER_SCRIPT ARGUMENTS...`; standard library only, so that it
costs milliseconds. Exits when the worker does; the worker ends when this process does.
"""

import json
import os
import socket
import sys


def main() -> None:
    """Hand arguments, environment and standard streams to the zygote, then wait for the end."""
    path, *arguments = sys.argv[1:]
    request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        socket.send_fds(line, [len(request).to_bytes(4, "big")], [0, 1, 2])
        line.sendall(request)
        line.recv(1)  # end of file: the worker is gone


if __name__ == "__main__":
    main()
