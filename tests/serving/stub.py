"""Stands for a vLLM server: `python stub.py HOST PORT NAME`. A name says what is wrong with it."""

import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]


class Health(BaseHTTPRequestHandler):
    """Answers whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path == "/die":
            sys.exit(7)

    def log_message(self, *told: object) -> None:
        pass


if "fails" in name:
    print("INFO starting")
    print("RuntimeError: Unsupported configuration")
    sys.exit(1)
if "stubborn" in name:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "silent" in name:
    time.sleep(60)
HTTPServer((host, port), Health).serve_forever()
