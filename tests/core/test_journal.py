"""A journal's lines: whole or skipped, whatever a crash left between them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.journal import Journal, append, lines, report_to
from posttrain.stages import Progress
from posttrain.store import Store


def test_a_line_cut_short_by_a_crash_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "a"}\n{"event": "b')
    assert lines(path) == [{"event": "a"}]


@given(
    st.lists(st.sampled_from(["{", '{"event": "b', "\n", "null\n", "[1]\n", "\xff"]), max_size=4)
)
def test_a_line_after_a_crash_is_whole(
    tmp_path_factory: pytest.TempPathFactory, junk: list[str]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "events.jsonl"
    for number, piece in enumerate(junk):
        append(path, {"number": number})
        with path.open("a") as stream:
            stream.write(piece)
    append(path, {"number": len(junk)})
    assert [line["number"] for line in lines(path)] == list(range(len(junk) + 1))


def test_the_latest_sign_is_found_however_many_metrics_it_has(store: Store) -> None:
    journal = Journal(store, "r")
    journal.begin({})
    many = {f"critic/a_rather_long_name/{number}": number / 7 for number in range(300)}
    for step in (1, 2):
        report_to(journal.progress("rl"), Progress(step, 9, metrics=many))
    assert (journal.latest("rl") or {})["step"] == 2


def test_a_journal_is_of_a_run_and_its_logs_of_stages(store: Store) -> None:
    with pytest.raises(ValueError, match="is no name"):
        Journal(store, "../runs")
    with pytest.raises(ValueError, match="is no name"):
        Journal(store, "r").log("../plan")
    assert Journal(store, "r").log("scores.rl").name == "scores.rl.log"
