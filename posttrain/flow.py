"""Whose move it is within an RL stage, read off its sample ledger.

The trainer works once a batch of groups is ready, and until then waits for rollouts; these wait for
verdicts where nothing is generated any more; verdicts come from the reward service. Where all that
is under way is ready, the trainer alone has a move.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from posttrain.rl.account import Account, Event, account
from posttrain.rl.ledger import NAME, Events
from posttrain.signs import Component

_PART = {
    "generating": "rollouts", "generated": "rollouts", "scored": "verdicts", "trained": "trainer",
    "checkpoint": "trainer",
}  # fmt: skip
_KEPT = 300
"""Latest signs of each part, from which its bound is."""


def components(work: Path) -> list[Component]:
    """Trainer, rollouts and verdicts of the RL stage in `work`; none without a sound ledger."""
    if not (work / NAME).is_file():
        return []
    events = Events(work / NAME)
    try:
        return list(_components(account(events), _times(events)))
    except ValueError:
        return []  # The stage itself says what is wrong with it.


def _times(events: Iterable[Event]) -> dict[str, deque[float]]:
    times: dict[str, deque[float]] = {}
    for event in events:
        if part := _PART.get(event["event"]):
            times.setdefault(part, deque(maxlen=_KEPT)).append(float(event["time"]))
    return times


def _components(state: Account, times: dict[str, deque[float]]) -> Iterator[Component]:
    if not times:
        return
    now = Counter(state.prompts[number].state for number in state.live)
    batch = state.plan["prompts_per_step"]
    doing = {
        "trainer": f"step {state.step + 1}, {now['ready']} of {batch} prompts ready",
        "rollouts": f"{now['generating']} prompts generating, {now['queued']} queued",
        "verdicts": f"{now['verifying']} prompts verifying",
    }
    if now["ready"] == now.total():
        doing = {"trainer": doing["trainer"]}
    waits = {
        "trainer": "" if now["ready"] >= batch or len(doing) == 1 else "rollouts",
        "rollouts": "verdicts" if now["verifying"] and not now["generating"] else "",
        "verdicts": "rewards" if now["verifying"] else "rollouts",
    }
    begun = min(each[0] for each in times.values())
    for name, told in doing.items():
        yield Component(name, tuple(times.get(name) or (begun,)), told, waits[name])
