"""Who waits for whom in a run, since when and against which bound; and who is to blame.

What runs is a graph of links: the controller waits for stages, a stage for its components, its job
and its services. To blame is the faulty link that waits for no faulty one.
"""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from posttrain import processes, services
from posttrain.journal import Journal
from posttrain.lease import Holder, holder
from posttrain.liveness import Bounds
from posttrain.processes import Process
from posttrain.signs import components
from posttrain.store import Store

CONTROLLER = "controller"


@dataclass(frozen=True)
class Link:
    """A component: `silence` and `bound` in s (None: not known), whom it waits for, its fault.

    `fault` is empty of one that is well; `remedy` says what to do about it.
    """

    name: str
    doing: str = ""
    silence: float | None = None
    bound: float | None = None
    waits_for: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    fault: str = ""
    remedy: str = ""


def told(store: Store, run: str) -> dict[str, Any]:
    """How a run stands, as JSON values.

    `{"run", "going_on", "finished", "last", "links", "chain", "culprit", "advice"}`.
    """
    journal = Journal(store, run)
    bounds = journal.archived().stalls
    events = _of_last_start(journal.events())
    ends = [e for e in events if e["event"] == "stalled" or e.get("retried") is False]
    last = ends[-1] if ends else None
    holding = holder(store, run)
    finished = any(e["event"] == "run finished" for e in events)
    found: dict[str, Any] = {"run": run, "going_on": False, "finished": finished, "last": last}
    if holding is None or not holding.held:
        return found | {"links": [], "chain": [], "culprit": None, "advice": ""}
    links = gathered(journal, bounds, holding, events)
    path, to_blame = chain(links)
    advice = links[to_blame].remedy if to_blame else ""
    return found | {
        "going_on": True, "links": [asdict(link) for link in links.values()],
        "chain": [asdict(links[name]) for name in path], "culprit": to_blame, "advice": advice,
    }  # fmt: skip


def chain(links: Mapping[str, Link]) -> tuple[list[str], str | None]:
    """Names from the controller to who is to blame, and that one; or down to who waits for nobody.

    Whoever waits in a circle is named once.
    """
    path = _to_blame(links, CONTROLLER, ())
    if path:
        return path, path[-1]
    path = [CONTROLLER]
    while after := [name for name in links[path[-1]].waits_for if name not in path]:
        path.append(after[0])
    return path, None


def _to_blame(links: Mapping[str, Link], name: str, above: tuple[str, ...]) -> list[str]:
    here = (*above, name)
    for other in links[name].waits_for:
        if other not in here and (path := _to_blame(links, other, here)):
            return path
    return list(here) if links[name].fault else []


def gathered(
    journal: Journal, bounds: Bounds, holding: Holder, events: list[dict[str, Any]]
) -> dict[str, Link]:
    """All links of a run that is going on, by name."""
    ours = list(processes.of_run(holding.token)) if _here(holding) else []
    found = {link.name: link for link in _services(events, bounds, ours)}
    used = tuple(found)
    running = list(_running(events))
    known = {pid for link in found.values() for pid in link.pids}
    for stage in running:
        mine = [p for p in ours if p.title.partition(" ")[0] == f"ray::{journal.run}/{stage}"]
        known |= {process.pid for process in mine}
        found |= _stage(journal, stage, bounds, mine, used)
    for process in ours:
        if process.stopped and process.pid not in known:
            found |= _stray(process, [found[stage] for stage in running])
    return {CONTROLLER: _controller(holding, bounds, tuple(running))} | found


def _of_last_start(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    starts = [at for at, event in enumerate(events) if event["event"] == "run started"]
    return events[starts[-1] :] if starts else []


def _here(holding: Holder) -> bool:
    return holding.host == socket.gethostname()


def _running(events: list[dict[str, Any]]) -> Iterator[str]:
    last = {event["stage"]: event["event"] for event in events}
    return (stage for stage, event in last.items() if event == "started")


def _controller(holding: Holder, bounds: Bounds, waits_for: tuple[str, ...]) -> Link:
    silence = max(time.time() - holding.since, 0.0)
    link = Link(
        CONTROLLER, "waits for its stages", silence, bounds.controller, waits_for, (holding.pid,)
    )
    process = processes.process(holding.pid) if _here(holding) else None
    return _judged(link, [process] if process else [], "its watcher kills the run")


def _stage(
    journal: Journal, stage: str, bounds: Bounds, mine: list[Process], used: tuple[str, ...]
) -> dict[str, Link]:
    parts = {link.name: link for link in _parts(journal, stage, bounds, used)}
    sign, heard = journal.latest(stage), journal.heard(stage)
    doing = f"{sign['phase']} {sign['step']}/{sign['steps']}" if sign else "starting"
    silence = max(time.time() - heard[-1], 0.0) if heard else None
    awaited = {name for link in parts.values() for name in link.waits_for}
    first = [name for name in parts if name not in awaited] or list(parts)
    link = Link(
        stage, doing, silence, bounds.earned(heard), (*first, *used),
        tuple(process.pid for process in mine),
    )  # fmt: skip
    log = f"the controller ends the run with exit code 4; log: {journal.log(stage)}"
    return {stage: _judged(link, mine, log)} | parts


def _parts(journal: Journal, stage: str, bounds: Bounds, used: tuple[str, ...]) -> Iterator[Link]:
    """Components by their signs, and the job if the stage has one."""
    work = journal.work(stage)
    found = components(work)
    names = {part.name for part in found}
    for part in found:
        waits = (f"{stage}/{part.waits_for}" if part.waits_for in names else part.waits_for,)
        link = Link(
            f"{stage}/{part.name}", part.doing, max(time.time() - part.times[-1], 0.0),
            bounds.earned(part.times), waits if part.waits_for else (),
        )  # fmt: skip
        if waits[0] and part.waits_for not in (*names, *used):
            yield Link(part.waits_for, "of which nothing is known here")
        # Who waits is not to blame for its silence.
        yield link if part.waits_for else _judged(link, [], f"see the log of {stage}")
    handle = work / "job.json"
    if handle.is_file():
        pid = int(json.loads(handle.read_bytes())["pid"])
        process = processes.process(pid)
        link = Link(f"{stage}/job", _shortened(process.title) if process else "gone", pids=(pid,))
        yield _judged(link, [process] if process else [], f"see {work / 'log'}")


def _services(events: list[dict[str, Any]], bounds: Bounds, ours: list[Process]) -> Iterator[Link]:
    urls = {e["stage"]: e["url"] for e in events if e["event"] == "service ready"}
    for name, url in urls.items():
        mine = [process for process in ours if f"-m {name} serve" in process.title]
        link = Link(name, f"at {url}", None, bounds.service, (), tuple(p.pid for p in mine))
        remedy = "it is started again once its bound has passed" if mine else "ask its owner"
        link = _judged(link, mine, remedy)
        if not link.fault and not services.answers_at_all(f"{url}/readyz"):
            link = replace(link, fault="does not answer", remedy=remedy)
        yield link


def _stray(process: Process, stages: list[Link]) -> dict[str, Link]:
    """A stopped process of which it is not known whose it is: every running stage waits for it."""
    link = Link(f"process {process.pid}", _shortened(process.title), pids=(process.pid,))
    link = _judged(link, [process], "the run ends once a bound has passed")
    waiting = [replace(stage, waits_for=(*stage.waits_for, link.name)) for stage in stages]
    return {each.name: each for each in (link, *waiting)}


def _judged(link: Link, mine: list[Process], otherwise: str) -> Link:
    """The link with its fault, if it has one, and what to do; `otherwise` is what happens then."""
    stopped = [str(process.pid) for process in mine if process.stopped]
    if stopped:
        fault = f"process {', '.join(stopped)} is stopped"
        return replace(
            link,
            fault=fault,
            remedy=f"kill -CONT {' '.join(stopped)} lets it go on; else {otherwise}",
        )
    if link.silence is not None and link.bound is not None and link.silence > link.bound:
        return replace(link, fault="silent for longer than its bound", remedy=otherwise)
    return link


def _shortened(title: str) -> str:
    return title if len(title) <= 60 else f"{title[:57]}..."


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What `told` found, for people."""
    if not found["going_on"]:
        end = " has finished" if found["finished"] else " is not going on"
        yield f"{found['run']}{end}{_why(found['last'])}"
        return
    for depth, link in enumerate(found["chain"]):
        yield f"{'  ' * depth}{'waits for ' if depth else ''}{_line(link)}"
    others = [link for link in found["links"] if link not in found["chain"]]
    yield from (f"also: {_line(link)}" for link in others)
    to_blame = found["culprit"]
    yield (
        f"to blame: {to_blame}; {found['advice']}" if to_blame else "nobody is to blame: it goes on"
    )


def _why(last: Mapping[str, Any] | None) -> str:
    if last is None:
        return ""
    if last["event"] == "failed":
        return f"; stage {last['stage']} failed: {last.get('reason', '')}"
    silence, bound = last["silence"], last["bound"]
    return f"; {last['part']} gave no sign of life for {silence:.0f} s (its bound: {bound:.0f} s)"


def _line(link: Mapping[str, Any]) -> str:
    since = "" if link["silence"] is None else f"last sign {link['silence']:.0f} s ago"
    bound = "" if link["bound"] is None else f"bound {link['bound']:.0f} s"
    parts = [link["doing"], since, bound, link["fault"].upper()]
    return f"{link['name']}: {', '.join(part for part in parts if part)}"
