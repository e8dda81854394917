"""The ledger on disk, and the account of what it says."""

import json
import random
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posttrain.rl.account import Account, account, standing
from posttrain.rl.ledger import ARCHIVED, Events, Ledger, archive

PLAN = {"prompts_per_step": 2, "group": 2, "seed": 1}


def _issue(ledger: Ledger, source: str = "a") -> int:
    number = len(ledger.account.prompts)
    ledger.note("issued", prompt=number, row=number, source=source, version=0)
    return number


def _finish(ledger: Ledger, number: int, tokens: int = 5) -> None:
    ledger.note("generating", prompt=number)
    for index in range(2):
        ledger.note("generated", prompt=number, response=index, tokens=tokens, versions=[0, 0])
        ledger.note("scored", prompt=number, response=index, status="scored", reason="", score=1.0)


def _step(ledger: Ledger) -> list[int]:
    numbers = [_issue(ledger), _issue(ledger)]
    for number in numbers:
        _finish(ledger, number)
    ledger.note("trained", step=ledger.account.step + 1, prompts=numbers)
    return numbers


def test_a_prompt_goes_through_its_states(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "log", 0, PLAN)
    number = _issue(ledger)
    prompt = ledger.account.prompts[number]
    states = [prompt.state]
    for index in range(2):
        ledger.note("generating", prompt=number)
        ledger.note("generated", prompt=number, response=index, tokens=3, versions=[0, 1])
        states.append(prompt.state)
    for index in range(2):
        ledger.note("scored", prompt=number, response=index, status="scored", reason="", score=0.0)
        states.append(prompt.state)
    ledger.note("dropped", prompt=number, why="stale", step=1)
    assert [*states, prompt.state] == [
        "queued", "generating", "verifying", "verifying", "ready", "dropped.stale"
    ]  # fmt: skip


def test_lengths_are_those_of_responses_trained_on(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "log", 0, PLAN)
    _step(ledger)
    _finish(ledger, _issue(ledger), tokens=9)
    assert ledger.account.lengths == {5: 4}


@pytest.mark.parametrize(
    ("event", "fields", "said"),
    [
        ("issued", {"prompt": 5, "row": 0, "source": "a", "version": 0}, "prompt 5 is issued, 1"),
        ("filtered", {"prompt": 7}, "prompt 7 was never issued"),
        ("trained", {"step": 2, "prompts": [0, 1]}, "step 2 is trained after step 0"),
        ("trained", {"step": 1, "prompts": [0]}, "step 1 is trained on 1 prompts"),
        ("checkpoint", {"step": 1}, "checkpoint of step 1 after step 0"),
        ("lost", {}, "no event 'lost'"),
        ("begun", PLAN, "begins once"),
    ],
)
def test_what_contradicts_the_ledger_is_refused_and_not_written(
    tmp_path: Path, event: str, fields: dict[str, Any], said: str
) -> None:
    ledger = Ledger(tmp_path / "log", 0, PLAN)
    _issue(ledger)
    before = list(Events(tmp_path / "log"))
    with pytest.raises(ValueError, match=said):
        ledger.note(event, **fields)
    assert list(Events(tmp_path / "log")) == before


def test_no_prompt_ends_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "log", 0, PLAN)
    numbers = _step(ledger)
    with pytest.raises(ValueError, match="prompt 0 is trained, and now dropped"):
        ledger.note("dropped", prompt=numbers[0], why="stale", step=1)


def test_what_came_after_the_checkpoint_is_void_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ledger = Ledger(path, 0, PLAN)
    _step(ledger)
    kept = _issue(ledger)
    ledger.note("checkpoint", step=1)
    lost = _issue(ledger)
    ledger.note("dropped", prompt=kept, why="fault", step=2)
    resumed = Ledger(path, 1, PLAN)
    assert resumed.account.live == {kept}
    assert resumed.account.totals() == {"issued": 3, "trained": 2, "filtered": 0, "in_flight": 1}
    assert _issue(resumed, "b") == lost
    void = [event["event"] for event, counts in standing(list(Events(path))) if not counts]
    assert void == ["issued", "dropped"]
    assert account(list(Events(path))).prompts[lost].source == "b"


def test_a_resume_from_an_older_checkpoint_undoes_the_newer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ledger = Ledger(path, 0, PLAN)
    for step in (1, 2):
        _step(ledger)
        ledger.note("checkpoint", step=step)
    assert Ledger(path, 1, PLAN).account.step == 1
    with pytest.raises(ValueError, match="no checkpoint of step 2"):
        Ledger(path, 2, PLAN)


def test_a_run_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _step(Ledger(path, 0, PLAN))
    assert Ledger(path, 0, PLAN).account.totals()["issued"] == 0


@given(cut=st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_a_torn_last_line_is_cut_off_wherever_it_tore(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "log"
    ledger = Ledger(path, 0, PLAN)
    for _ in range(4):
        _issue(ledger)
    content = path.read_bytes()
    kept = content[: max(0, len(content) - cut)]
    path.write_bytes(kept)
    whole = kept.count(b"\n")
    assert len(list(Events(path))) == whole
    assert Ledger(path, 0, PLAN).account.plan == PLAN
    assert [event["n"] for event in list(Events(path))] == list(range(whole + 1))


def _lacks_a_line(lines: list[bytes]) -> list[bytes]:
    return lines[:2] + lines[3:]


def _has_a_broken_line(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2][:-5] + b"\n", *lines[3:]]


@pytest.mark.parametrize("damage", [_lacks_a_line, _has_a_broken_line])
def test_damage_within_is_no_torn_tail(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    path = tmp_path / "log"
    ledger = Ledger(path, 0, PLAN)
    for _ in range(4):
        _issue(ledger)
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(ValueError, match="line 3 is damaged with sound lines behind it"):
        Ledger(path, 0, PLAN)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ledger = Ledger(path, 0, PLAN)
    _issue(ledger)
    before = path.read_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, most))
    try:
        with pytest.raises(OSError, match="File too large"):
            _issue(ledger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert path.read_bytes() == before


def test_nothing_is_written_once_it_is_closed(tmp_path: Path) -> None:
    """A rollout that outlives its run must not write into what now has the file's number."""
    ledger = Ledger(tmp_path / "log", 0, PLAN)
    ledger.close()
    with (tmp_path / "other").open("w") as other:
        with pytest.raises(ValueError, match="the ledger is closed, and now issued"):
            _issue(ledger)
        other.flush()
    assert (tmp_path / "other").read_text() == ""
    assert len(list(Events(tmp_path / "log"))) == 1


def test_an_archive_reads_the_same_and_is_made_the_same_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _step(Ledger(path, 0, PLAN))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        archive(path, tmp_path / name / ARCHIVED)
    assert list(Events(tmp_path / "one" / ARCHIVED)) == list(Events(path))
    first, second = ((tmp_path / name / ARCHIVED).read_bytes() for name in ("one", "two"))
    assert first == second


def test_an_archive_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    path = tmp_path / ARCHIVED
    _step(Ledger(tmp_path / "log", 0, PLAN))
    archive(tmp_path / "log", path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"ledger.jsonl.gz is damaged"):
        list(Events(path))


def test_an_account_that_does_not_add_up_says_what() -> None:
    found = Account()
    found.apply({"event": "begun", **PLAN})
    found.counts["issued"] = 1
    assert found.imbalance() == "issued 1, but ended 0 + in flight 0"
    found.counts.clear()
    found.step = 1
    assert found.imbalance() == "trained 0 prompts, 1 steps train 2"


class Crashes(RuleBasedStateMachine):
    """Any order of events, checkpoints and resumes: the account is that of what still counts."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[dict[str, Any]] = [{"event": "begun", **PLAN}]
        self.now = account(self.log)
        self.saved = {0: (0, Counter[str](), frozenset[int]())}

    def _note(self, event: str, **fields: Any) -> None:
        self.log.append({"event": event, **fields})
        self.now.apply(self.log[-1])

    @rule()
    def issue(self) -> None:
        number = len(self.now.prompts)
        self._note("issued", prompt=number, row=0, source="a", version=self.now.step)

    @precondition(lambda self: self.now.live)
    @rule(draw=st.randoms(use_true_random=False), how=st.sampled_from(["filtered", "dropped"]))
    def end(self, draw: random.Random, how: str) -> None:
        number = draw.choice(sorted(self.now.live))
        self._note(how, prompt=number, why="stale" if how == "dropped" else "")

    @precondition(lambda self: len(self.now.live) >= 2)
    @rule(draw=st.randoms(use_true_random=False))
    def train(self, draw: random.Random) -> None:
        numbers = draw.sample(sorted(self.now.live), 2)
        self._note("trained", step=self.now.step + 1, prompts=numbers)

    @rule()
    def save(self) -> None:
        if self.now.step not in self.saved:
            self._note("checkpoint", step=self.now.step)
            state = (len(self.now.prompts), Counter(self.now.counts), self.now.live)
            self.saved[self.now.step] = state

    @rule(draw=st.randoms(use_true_random=False))
    def crash_and_resume(self, draw: random.Random) -> None:
        step = draw.choice(sorted(self.saved))
        self.log.append({"event": "resumed", "step": step})
        self.now = account(self.log)
        issued, counts, live = self.saved[step]
        assert (len(self.now.prompts), self.now.counts, self.now.live) == (issued, counts, live)
        self.saved = {saved: state for saved, state in self.saved.items() if saved <= step}

    @invariant()
    def balances(self) -> None:
        assert self.now.imbalance() is None


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_a_line_is_json_and_one_event(tmp_path: Path) -> None:
    _step(Ledger(tmp_path / "log", 0, PLAN))
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert events[0] == "begun"
    assert events[-1] == "trained"
    assert Counter(events)["issued"] == 2
