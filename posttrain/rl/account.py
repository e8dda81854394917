"""What became of each prompt: a pure function of the events in a sample ledger.

A prompt is issued once, under the next number. It is queued, generating, verifying, ready, until
it ends in one of three ways: trained in one step, filtered because its rewards are equal, or
dropped for a reason.
A checkpoint freezes all of that; when a run resumes from one, what happened after it is void, for
the weights no longer know of it. An event that contradicts this is refused.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

Event = Mapping[str, Any]


@dataclass
class Response:
    """One response: its tokens, and the verdict's status once there is one."""

    tokens: int
    status: str = ""


@dataclass
class Prompt:
    """One prompt: `version` are the weights when it was last issued, `responses` those since."""

    row: int
    source: str
    version: int
    state: str = "queued"
    responses: dict[int, Response] = field(default_factory=dict)


class Account:
    """The state after the events so far; ValueError when one does not fit."""

    def __init__(self) -> None:
        self.plan: dict[str, Any] = {}
        self.prompts: dict[int, Prompt] = {}
        self.step = 0
        self.checkpoint = 0
        self.counts: Counter[str] = Counter()
        self.by_source: dict[str, Counter[str]] = {}
        self.lengths: Counter[int] = Counter()
        self.dropped_sources: dict[str, str] = {}
        self._live: set[int] = set()

    def apply(self, event: Event) -> None:
        """Take in one event."""
        take = _TAKE.get(event["event"])
        if take is None:
            raise ValueError(f"a ledger knows no event {event['event']!r}")
        take(self, event)

    @property
    def live(self) -> frozenset[int]:
        """Numbers of the prompts in flight."""
        return frozenset(self._live)

    def in_flight(self, source: str) -> Counter[str]:
        """How many prompts of `source` are `queued`, `generating`, `verifying` or `ready`."""
        found = (self.prompts[number] for number in self.live)
        return Counter(prompt.state for prompt in found if prompt.source == source)

    def totals(self) -> dict[str, int]:
        """`issued`, `trained`, `filtered`, each `dropped.<why>` and `in_flight`."""
        return {
            "issued": 0, "trained": 0, "filtered": 0, **self.counts, "in_flight": len(self._live)
        }  # fmt: skip

    def imbalance(self) -> str | None:
        """What does not add up, in one line; None if all does."""
        totals = self.totals()
        ended = sum(count for name, count in totals.items() if name not in ("issued", "in_flight"))
        if totals["issued"] != ended + totals["in_flight"]:
            return f"issued {totals['issued']}, but ended {ended} + in flight {totals['in_flight']}"
        planned = self.step * self.plan.get("prompts_per_step", 0)
        if totals["trained"] != planned:
            return f"trained {totals['trained']} prompts, {self.step} steps train {planned}"
        return None

    def _begun(self, event: Event) -> None:
        if self.plan:
            raise ValueError("a ledger begins once")
        self.plan = {key: event[key] for key in ("prompts_per_step", "group", "seed")}

    def _issued(self, event: Event) -> None:
        number = int(event["prompt"])
        if number != len(self.prompts):
            raise ValueError(f"prompt {number} is issued, {len(self.prompts)} would be the next")
        self.prompts[number] = Prompt(event["row"], event["source"], event["version"])
        self._live.add(number)
        self._count(event["source"], "issued")

    def _reissued(self, event: Event) -> None:
        prompt = self._in_flight(event)
        prompt.version, prompt.state = event["version"], "queued"
        prompt.responses.clear()

    def _generating(self, event: Event) -> None:
        self._in_flight(event).state = "generating"

    def _generated(self, event: Event) -> None:
        prompt = self._in_flight(event)
        prompt.responses[event["response"]] = Response(event["tokens"])
        if len(prompt.responses) == self.plan["group"]:
            prompt.state = "verifying"

    def _scored(self, event: Event) -> None:
        prompt = self._in_flight(event)
        prompt.responses[event["response"]].status = event["status"]
        done = [response for response in prompt.responses.values() if response.status]
        if len(done) == self.plan["group"]:
            prompt.state = "ready"

    def _trained(self, event: Event) -> None:
        if event["step"] != self.step + 1:
            raise ValueError(f"step {event['step']} is trained after step {self.step}")
        if len(set(event["prompts"])) != self.plan["prompts_per_step"]:
            raise ValueError(f"step {event['step']} is trained on {len(event['prompts'])} prompts")
        for number in event["prompts"]:
            prompt = self._ended({"prompt": number, **event}, "trained")
            self.lengths.update(response.tokens for response in prompt.responses.values())
            prompt.responses.clear()
        self.step += 1

    def _filtered(self, event: Event) -> None:
        self._ended(event, "filtered").responses.clear()

    def _dropped(self, event: Event) -> None:
        self._ended(event, "dropped", event["why"]).responses.clear()

    def _source_dropped(self, event: Event) -> None:
        self.dropped_sources[event["source"]] = event["why"]

    def _checkpoint(self, event: Event) -> None:
        if event["step"] != self.step:
            raise ValueError(f"checkpoint of step {event['step']} after step {self.step}")
        self.checkpoint = self.step

    def _resumed(self, event: Event) -> None:
        if event["step"] != self.step:
            raise ValueError(f"resumed from step {event['step']}, the ledger is at {self.step}")

    def _in_flight(self, event: Event) -> Prompt:
        number = event["prompt"]
        if number not in self._live:
            known = self.prompts.get(number)
            state = f"is {known.state}" if known else "was never issued"
            raise ValueError(f"prompt {number} {state}, and now {event['event']}")
        return self.prompts[number]

    def _ended(self, event: Event, state: str, why: str = "") -> Prompt:
        prompt = self._in_flight(event)
        prompt.state = f"{state}.{why}" if why else state
        self._live.remove(event["prompt"])
        self._count(prompt.source, prompt.state)
        return prompt

    def _count(self, source: str, name: str) -> None:
        self.counts[name] += 1
        self.by_source.setdefault(source, Counter())[name] += 1


_TAKE = {
    "begun": Account._begun, "issued": Account._issued, "reissued": Account._reissued,
    "generating": Account._generating, "generated": Account._generated,
    "scored": Account._scored, "trained": Account._trained, "filtered": Account._filtered,
    "dropped": Account._dropped, "source_dropped": Account._source_dropped,
    "checkpoint": Account._checkpoint, "resumed": Account._resumed,
}  # fmt: skip


def standing(events: Iterable[Event], *more: Event) -> Iterator[tuple[Event, bool]]:
    """Each event, and whether it still counts: no later `resumed` has made it void.

    `events` are gone through twice. ValueError if a run resumed from a checkpoint they do not have.
    """
    void = iter(_void(chain(events, more)))
    now = next(void, None)
    for index, event in enumerate(chain(events, more)):
        while now is not None and index >= now.stop:
            now = next(void, None)
        yield event, now is None or index not in now


def account(events: Iterable[Event], *more: Event) -> Account:
    """The account of all events that count; as for `standing`."""
    found = Account()
    for event, counts in standing(events, *more):
        if counts:
            found.apply(event)
    return found


def _void(events: Iterable[Event]) -> list[range]:
    """The places of events that do not count, in order."""
    points: list[tuple[int, Event]] = []
    void: list[range] = []
    for index, event in enumerate(events):
        if event["event"] in ("begun", "checkpoint"):
            points.append((index, event))
        elif event["event"] == "resumed":
            while points and not _is_point(points[-1][1], event["step"]):
                points.pop()
            if not points:
                raise ValueError(f"there is no checkpoint of step {event['step']} to resume from")
            first = points[-1][0] + 1
            void = [*(earlier for earlier in void if earlier.start < first), range(first, index)]
    return void


def _is_point(event: Event, step: int) -> bool:
    """Whether `event` is where a run at `step` resumes."""
    if step == 0:
        return bool(event["event"] == "begun")
    return event["event"] == "checkpoint" and bool(event["step"] == step)
