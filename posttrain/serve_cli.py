"""The `posttrain serve` command: parse, call and print."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from posttrain.services import ServiceFailed
from posttrain.store import Store

console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def serve(
    checkpoints: Annotated[
        list[str], typer.Argument(metavar="CHECKPOINT...", help="run/stage@number, alias or folder")
    ],
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="of the first; the others' follow it")
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    backend: Annotated[str, typer.Option(help="cpu or gpu")] = "cpu",
    machine: Annotated[bool, typer.Option("--json", help="print JSON once all answer")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
    ] = Path("store"),
) -> None:
    """Serve checkpoints side by side behind OpenAI-compatible endpoints, until Ctrl-C."""
    from posttrain.serving.checkpoints import found
    from posttrain.serving.server import Served, ServerDied
    from posttrain.serving.side_by_side import serving, watch

    place = Store(store)
    served: list[Served] = found(checkpoints, place)

    def told(line: str) -> None:
        (sys.stderr.write(line + "\n") if machine else console.print(line))

    # Whoever watches over it ends it by either; a shell has background jobs ignore the first.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    where = place.root / "serving"
    try:
        with serving(
            served, host=host, port=port, folder=where, backend=backend, told=told
        ) as servers:
            if machine:
                _print_json({each.served.name: each.url for each in servers})
            for each in servers:
                told(f"{each.served.name} is served at {each.url}, log {each.log}")
            first = servers[0]
            told(f"next: posttrain release check {first.url} --model {first.served.name}")
            watch(servers)
    except ServerDied as fault:
        raise ServiceFailed(str(fault)) from None
    except KeyboardInterrupt:
        told("ended: no server is left")


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
