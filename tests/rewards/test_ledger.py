"""The ledger keeps what it acknowledged, whenever its writer is killed, and tells of damage."""

import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from rewards.ledger import COLUMNS, Ledger, input_digest, read
from rewards.schema import Check, Composite, Item, abstained, failed, scored
from tests.rewards.service import ROOT

WRITER = """
import sys
from pathlib import Path
from tests.rewards.test_ledger import batch
from rewards.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), segment=20_000)
number = int(sys.argv[2])
while True:
    ledger.append(*batch(number, 7))
    number += 7
    print(number, flush=True)
"""


def batch(first: int, count: int) -> tuple[list[Item], list]:
    """`count` items, numbered from `first`, and their verdicts."""
    items = [
        Item(id=str(n), verifier="answer", response=f"§RL1 {n} " * 9, gold=["42"])
        for n in range(first, first + count)
    ]
    return items, [scored(item, 1.0, "ok", feedback="fine") for item in items]


def ids(folder: Path) -> list[int]:
    return [int(record.item.id) for record in read(folder)]


def test_kill_9_at_random_moments_takes_no_acknowledged_record(tmp_path: Path) -> None:
    """One folder, killed again and again, small segments: kills meet writes, seals and recovery."""
    folder, draw, written = tmp_path / "ledger", random.Random(7), 0
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(folder), str(written)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            acknowledged = writer.stdout.readline()
            time.sleep(draw.uniform(0, 0.3))
            writer.send_signal(signal.SIGKILL)
            acknowledged = (acknowledged + writer.stdout.read()).rsplit("\n", 2)[-2]
        found = ids(folder)
        assert found == list(range(len(found)))
        assert len(found) >= int(acknowledged)
        written = len(found)
    with Ledger(folder):
        assert ids(folder) == list(range(written))
    assert ids(folder) == list(range(written))
    assert not list(folder.glob("*.log"))


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    plain = Item(id="a", verifier="math", answers=["½"], gold={"b": [1, None], "a": "x"})
    check = Check(verifier="code", gold=["42"], parameters={"limit": 2})
    whole = Composite(id="c", response="print()", checks=[check])
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append(
            [plain, plain], [scored(plain, 0.5, parts={"x": 0.5}), abstained(plain, "no", "why")],
            digests={"math": "d1", "code": "d2"}, latency_ms=12.5, source="sums", run="r",
        )  # fmt: skip
        verdict = failed(plain, "deadline", "late")
        ledger.append([whole], [verdict.model_copy(update={"id": "c", "attempt": 2})])
        live = list(read(tmp_path / "ledger"))
    sealed = list(read(tmp_path / "ledger"))
    assert live == sealed
    assert [r.item for r in sealed] == [plain, plain, whole]
    assert [r.verdict.status for r in sealed] == ["scored", "abstained", "failed"]
    first, last = sealed[0], sealed[2]
    assert (first.digests, first.latency_ms, first.source) == ({"math": "d1"}, 12.5, "sums")
    assert (last.digests, last.attempt, last.run) == ({}, 2, None)
    assert first.input_digest == input_digest(plain.model_copy(update={"id": "other"}))


def test_sealed_segments_are_tables(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(*batch(0, 3))
    (path,) = tmp_path.glob("*.parquet")
    table = parquet.read_table(path)
    assert table.column_names == [*COLUMNS, "record"]
    assert table.column("id").to_pylist() == ["0", "1", "2"]
    assert table.column("score").to_pylist() == [1.0] * 3
    assert str(table.schema.field("source").type) == "string"


def test_the_input_digest_is_that_of_the_content() -> None:
    item = Item(id="a", verifier="v", response="r", gold={"x": 1, "y": 2}, parameters={"p": 1})
    same = Item(id="b", verifier="v", response="r", gold={"y": 2, "x": 1}, parameters={"p": 1})
    assert input_digest(item) == input_digest(same)
    for change in ({"verifier": "w"}, {"response": "s"}, {"gold": 1}, {"parameters": {}}):
        assert input_digest(item.model_copy(update=change)) != input_digest(item)
    check = Check(verifier="v", gold=1)
    whole = Composite(id="a", response="r", checks=[check])
    heavier = check.model_copy(update={"weight": 2.0})
    for change in ({"combine": "min"}, {"checks": [heavier]}, {"checks": [check, check]}):
        assert input_digest(whole.model_copy(update=change)) != input_digest(whole)


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        with pytest.raises(ValueError, match=r"written by another process"):
            Ledger(tmp_path)
        ledger.append(*batch(0, 1))
    with Ledger(tmp_path) as ledger:
        ledger.append(*batch(1, 1))
    assert ids(tmp_path) == [0, 1]


def test_opening_and_closing_leaves_no_segment(tmp_path: Path) -> None:
    Ledger(tmp_path / "new").close()
    assert ids(tmp_path / "new") == []
    with pytest.raises(ValueError, match=r"no such folder"):
        ids(tmp_path / "none")


@pytest.fixture(scope="module")
def log() -> bytes:
    """The log of five appends of one record each."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder)) as ledger:
        for number in range(5):
            ledger.append(*batch(number, 1))
        return (Path(folder) / "000001.log").read_bytes()


@pytest.fixture(scope="module")
def starts(log: bytes) -> list[int]:
    """Where its records begin, and its end."""
    marks = [at for at in range(len(log)) if log.startswith(b"\xffRL1", at)]
    return [*marks, len(log)]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for one example."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def fresh(place: Path, data: bytes) -> Path:
    """A ledger whose first segment is `data`."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "000001.log").write_bytes(data)
    return place


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_torn_tail_is_cut_and_what_was_whole_stays(
    log: bytes, starts: list[int], data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(log)))
    junk = data.draw(st.sampled_from([b"", b"\0" * 50, b"\xffRL1", b"\xff"]))
    whole = sum(start <= end for start in starts[1:])
    with tempfile.TemporaryDirectory() as name:
        place = fresh(Path(name) / "ledger", log[:end] + junk)
        assert ids(place) == list(range(whole))
        with Ledger(place) as ledger:
            ledger.append(*batch(whole, 2))
        assert ids(place) == list(range(whole + 2))
        assert (place / "000001.torn").exists() == (end != starts[whole] or junk != b"")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_in_the_middle_is_reported_with_its_place(
    log: bytes, starts: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, starts[4] - 1))
    flipped = bytes([log[at] ^ data.draw(st.integers(1, 255))])
    record = sum(start <= at for start in starts[1:])
    said = rf"000001.log is damaged at byte {starts[record]}, after {record} sound records"
    with tempfile.TemporaryDirectory() as name:
        place = fresh(Path(name) / "ledger", log[:at] + flipped + log[at + 1 :])
        before = []
        with pytest.raises(ValueError, match=said):
            before.extend(int(each.item.id) for each in read(place))
        with pytest.raises(ValueError, match=said):
            Ledger(place)
        assert not list(place.glob("*.torn"))


def test_records_before_the_damage_are_read(log: bytes, starts: list[int], place: Path) -> None:
    middle = starts[2] + 20
    fresh(place, log[:middle] + b"?" + log[middle + 1 :])
    reader = read(place)
    assert [next(reader).item.id, next(reader).item.id] == ["0", "1"]
    with pytest.raises(ValueError, match=r"damaged"):
        next(reader)


def test_a_damaged_table_is_reported(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(*batch(0, 200))
    (path,) = tmp_path.glob("*.parquet")
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 64):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"000001.parquet is damaged"):
        ids(tmp_path)


@pytest.mark.parametrize("moment", ["draft", "renamed"])
def test_a_seal_that_was_killed_is_taken_up_again(log: bytes, place: Path, moment: str) -> None:
    fresh(place, log)
    Ledger(place).close()
    (sealed,) = place.glob("*.parquet")
    (place / "000001.log").write_bytes(log)  # Killed before the log was removed ...
    if moment == "draft":  # ... or before the table was renamed.
        sealed.rename(place / "000001.tmp")
    assert ids(place) == [0, 1, 2, 3, 4]
    Ledger(place).close()
    assert ids(place) == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in place.iterdir()) == ["000001.parquet", "lock"]


def test_a_full_disk_costs_the_records_of_one_append_alone(tmp_path: Path) -> None:
    """A limit on the size of files stands for the end of the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = Ledger(tmp_path)
    try:
        ledger.append(*batch(0, 3))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with pytest.raises(OSError, match=r"large"):
            ledger.append(*batch(3, 100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous)
    ledger.append(*batch(3, 3))
    ledger.close()
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_appends_of_several_threads_stay_whole(tmp_path: Path) -> None:
    with Ledger(tmp_path, segment=5_000, fsync=True) as ledger, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.append(*batch(10 * n, 10)), range(20)))
    found = ids(tmp_path)
    assert sorted(found) == list(range(200))
    lots = [found[at : at + 10] for at in range(0, 200, 10)]
    assert all(lot == list(range(lot[0], lot[0] + 10)) for lot in lots)
