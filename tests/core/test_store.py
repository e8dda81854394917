"""The store shows whole artifacts only, whatever happens while they are made."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain import digest
from posttrain.store import Draft, Store, write_durably
from tests.conftest import commit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_commit_is_found_by_key_and_by_address(store: Store) -> None:
    made = commit(store, "r", "sft", "k1", weights="abc")
    assert made.address == "r/sft@1"
    assert store.find("k1") == made == store.get("r/sft@1")
    assert (made.path / "weights").read_text() == "abc"


def test_same_key_is_committed_once(store: Store) -> None:
    first = commit(store, "r", "sft", "k1", a="1")
    again = commit(store, "r", "sft", "k1", a="2")
    assert again == first
    assert len(list(store.artifacts())) == 1
    assert not list((store.root / "drafts").iterdir())


def test_another_key_gets_the_next_number(store: Store) -> None:
    commit(store, "r", "sft", "k1", a="1")
    assert commit(store, "r", "sft", "k2", a="1").address == "r/sft@2"


def test_racing_commits_of_one_stage_take_distinct_numbers(store: Store) -> None:
    made: list[str] = []
    drafts = [store.draft("r", "s", f"k{n}") for n in range(8)]

    def publish(draft: Draft) -> None:
        result = store.commit(draft, kind="data", identity={}, inputs={}, metrics={}, facts={})
        made.append(result.address)

    threads = [threading.Thread(target=publish, args=(draft,)) for draft in drafts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(made) == [f"r/s@{n}" for n in range(1, 9)]


@pytest.mark.parametrize("change", ["edit", "remove", "add"])
def test_a_changed_artifact_is_refused(store: Store, change: str) -> None:
    made = commit(store, "r", "s", "k", data="abc")
    made.verify()
    path = made.path / ("other" if change == "add" else "data")
    path.unlink() if change == "remove" else path.write_text("abd")
    with pytest.raises(ValueError, match=r"r/s@1: file (data|other) differs"):
        made.verify()


@pytest.mark.parametrize("address", ["r/s", "r/s@x", "@1", "../r/s@1"])
def test_a_wrong_address_is_named(store: Store, address: str) -> None:
    with pytest.raises(ValueError, match="artifact address"):
        store.get(address)


def test_an_unknown_address_lists_what_there_is(store: Store) -> None:
    commit(store, "r", "s", "k", a="1")
    with pytest.raises(ValueError, match=r"no artifact r/t@1 .* there are: r/s@1"):
        store.get("r/t@1")


def test_work_survives_for_the_same_key_and_not_for_another(store: Store) -> None:
    work = store.draft("r", "s", "k1").work
    (work / "state").write_text("step 5")
    assert (store.draft("r", "s", "k1").work / "state").read_text() == "step 5"
    assert not (store.draft("r", "s", "k2").work / "state").exists()


def test_work_is_shared_by_nodes_that_may_continue_each_other(store: Store) -> None:
    """And once the second is committed, what a crash left of it is cleared."""
    first = store.draft("r", "s", "k1", "w").work
    (first / "state").write_text("step 5")
    draft = store.draft("r", "s", "k2", "w")
    assert (draft.work / "state").read_text() == "step 5"
    (draft.output / "f").write_text("x")
    store.commit(draft, kind="data", identity={}, inputs={}, metrics={}, facts={})
    (store.work("r", "s", "k2", "w") / "state").write_text("left")
    store.clear("r")
    assert not first.exists()
    assert not (store.draft("r", "s", "k2", "other").work / "state").exists()


def test_commit_drops_the_work_of_its_stage(store: Store) -> None:
    draft = store.draft("r", "s", "k")
    (draft.work / "state").write_text("x")
    store.commit(draft, kind="data", identity={}, inputs={}, metrics={}, facts={})
    assert not draft.work.exists()


COMMITTER = """
import sys
from pathlib import Path
from posttrain.store import Store
store = Store(Path(sys.argv[1]))
for n in range(10_000):
    draft = store.draft("r", "s", f"k{n}")
    for name in "abc":
        (draft.output / name).write_text(name * 5000)
    store.commit(draft, kind="data", identity={}, inputs={}, metrics={}, facts={})
    print(n, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.011])
def test_kill_9_at_any_moment_leaves_whole_artifacts_only(store: Store, delay: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMITTER, str(store.root)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    found = list(store.artifacts())
    assert len(found) >= 3
    for artifact in found:
        artifact.verify()
    store.clear("r")
    assert not list((store.root / "drafts").iterdir())


def test_write_durably_replaces_or_leaves(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_durably(path, "one")
    write_durably(path, "two")
    assert path.read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


@given(JSON)
def test_equal_values_have_equal_digests_whatever_their_order(value: object) -> None:
    reordered = _reversed(value)
    assert digest.of_value(value) == digest.of_value(reordered)


@given(JSON, JSON)
def test_canonical_text_tells_values_apart(one: object, other: object) -> None:
    same = digest.canonical(one) == digest.canonical(other)
    assert same == (repr(_sorted(one)) == repr(_sorted(other)))


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
