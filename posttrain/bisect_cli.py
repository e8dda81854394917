"""The command `posttrain bisect`: parses, calls and prints."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from posttrain.registry import Registry
from posttrain.store import Store

if TYPE_CHECKING:
    from posttrain.bisection.bisecting import Found
    from posttrain.bisection.chain import Point
    from posttrain.bisection.probing import Asking
    from posttrain.bisection.prompts import Prompt

console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def bisect(
    prompts: Annotated[Path, typer.Option(help="JSON lines with `prompt` and `expect`")],
    good: Annotated[str, typer.Option(help="run/stage@number or alias that was right")],
    bad: Annotated[str, typer.Option(help="one made from it that is not")],
    least: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="share of prompts a good one meets; else midway"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="measure all points, not as few as possible")
    ] = False,
    rewards: Annotated[str | None, typer.Option(help="URL of a reward service")] = None,
    seed: Annotated[int, typer.Option(help="of sampling")] = 0,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.0,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 256,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the store")
    ] = Path("store"),
) -> None:
    """Find the stage, or the steps of one, that made a checkpoint fail prompts."""
    from posttrain.bisection.chain import points
    from posttrain.bisection.prompts import read

    asked = read(prompts)
    place = Store(store)
    registry = Registry(place)
    chain = points(place, registry.resolve(good), registry.resolve(bad))

    # Only now what takes seconds to import: what is wrong above is told at once.
    from transformers.utils import logging

    from posttrain.bisection.bisecting import bisect as search
    from posttrain.bisection.probing import Asking, check

    logging.disable_progress_bar()
    how = Asking(seed, temperature, max_new_tokens, rewards)
    check(asked, how)
    asking = _Asker(asked, how, len(chain), every=every, quiet=machine)
    found = search(chain, asking.met, least, every)
    if machine:
        sys.stdout.write(json.dumps(found.told(), indent=1) + "\n")
    else:
        _print(found)


class _Asker:
    """Asks one checkpoint after another, and says how far it got."""

    def __init__(
        self, prompts: "list[Prompt]", how: "Asking", points: int, *, every: bool, quiet: bool
    ) -> None:
        from posttrain.bisection.search import looks

        self._prompts, self._how, self._quiet = prompts, how, quiet
        self._most = points if every else looks(points)
        self._done = 0
        self._say(f"{points} checkpoints from good to bad; at most {self._most} are measured")

    def met(self, point: "Point") -> list[bool]:
        """Which prompts `point` meets."""
        from posttrain.bisection.bisecting import figures
        from posttrain.bisection.probing import met

        self._done += 1
        found = met(point.checkpoint, self._prompts, self._how)
        self._say(f"{self._done}/{self._most} {_line(figures(point, found))}")
        return found

    def _say(self, line: str) -> None:
        if not self._quiet:
            console.print(line)


def _line(told: dict[str, Any]) -> str:
    return (
        f"{told['checkpoint']}: {told['met']} of {told['prompts']} prompts "
        f"({told['share']:.1%}, 95 % interval {told['low']:.1%} to {told['high']:.1%})"
    )


def _print(found: "Found") -> None:
    from posttrain.bisection.bisecting import CHANCE

    before, after = found.points[found.bad - 1], found.points[found.bad]
    console.print(f"first bad: {after.name} ({after.made.record.kind}); last good: {before.name}")
    chance = "; that may be chance: add prompts" if found.p > CHANCE else ""
    console.print(f"loss from one to the other: p {found.p:.3g} (exact McNemar){chance}")
    for line in _doubts(found):
        console.print(line)
    console.print(f"config of {after.made.address} against the stage before:")
    for name, (old, new) in found.config().items():
        console.print(f"  {name}: {_brief(old)} -> {_brief(new)}")
    console.print(f"next: posttrain checkpoints show {after.made.address}")


def _doubts(found: "Found") -> list[str]:
    """What speaks against one clear turn."""
    told = []
    left = len(found.points) - len(found.measured)
    if left:
        told.append(
            f"{left} of {len(found.points)} checkpoints were not measured: if good and bad take "
            "turns there, this is one turn of several; --every finds all"
        )
    if found.others:
        places = ", ".join(found.points[at].name for at in found.others)
        told.append(f"not monotone: good turns to bad again at {places}")
    if found.unsteady:
        numbers = ", ".join(str(number + 1) for number in found.unsteady[:8])
        told.append(
            f"not monotone: {len(found.unsteady)} prompts were lost and met again: {numbers}"
        )
    return told


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
