"""Several ranks: what each trains on, what ends them, and that they train what one rank would."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.chat import Rendered
from posttrain.data.packing import PackingConfig
from posttrain.training import checkpoint, keeping, ranks, sequence, sft
from posttrain.training.ranks import RankLost, shared
from posttrain.training.sft import Settings, Start
from tests.training.conftest import World, read
from tests.training.rank_tasks import told
from tests.training.test_sft import MIXED, SETTINGS, _finetune


def _document(length: int) -> Rendered:
    return Rendered([1] * length, [0] + [1] * (length - 1))


@given(st.lists(st.integers(2, 300), min_size=1, max_size=60), st.integers(1, 5))
def test_ranks_share_every_document_in_equally_many_rows(lengths: list[int], count: int) -> None:
    documents = [_document(length) for length in lengths]
    if len(documents) < count:
        with pytest.raises(ValueError, match="raise batch"):
            shared(documents, count, 256)
        return
    parts = shared(documents, count, 256)
    assert len(parts) == count
    assert len({len(part) for part in parts}) == 1
    assert all(row for part in parts for row in part)
    rows = [part[at] for at in range(len(parts[0])) for part in parts]
    assert [document for row in rows for document in row] == documents


@given(st.lists(st.integers(2, 60), min_size=40, max_size=80), st.integers(2, 4))
def test_ranks_get_about_equally_many_tokens(lengths: list[int], count: int) -> None:
    parts = shared([_document(length) for length in lengths], count, 256)
    sums = [sum(len(each.ids) for row in part for each in row) for part in parts]
    assert max(sums) - min(sums) <= 2 * max(lengths) * len(parts[0])


def _running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_rank_0_speaks_for_all() -> None:
    heard: list[Any] = []
    assert ranks.run(2, told, ["well"], lambda *what: heard.append(what)) == ("well", 0)
    ((process, count),) = heard
    assert count == 2
    assert not _running(process)


def test_the_error_of_one_rank_is_the_users_and_ends_all() -> None:
    heard: list[int] = []
    with pytest.raises(ValueError, match="row 3 is empty"):
        ranks.run(2, told, ["wrong"], lambda process, _: heard.append(process))
    assert [_running(process) for process in heard] == [False]


def test_a_rank_killed_dead_is_known_and_ends_all() -> None:
    heard: list[int] = []
    with pytest.raises(RankLost, match="rank 1 ended with code -9"):
        ranks.run(2, told, ["killed"], lambda process, _: heard.append(process))
    assert [_running(process) for process in heard] == [False]


pytestmark = pytest.mark.timeout(900)  # Two more processes import everything.

TWO = replace(MIXED, ranks=2)
SHARED = replace(MIXED, ranks=2, sequence_parallel=2, keep_every=5)
PACKED = replace(MIXED, ranks=2, packing=PackingConfig(documents=3, oversize="split"), batch=2)


def _runs(
    start: Start, data: Mapping[str, Path], runs: Sequence[tuple[Settings, Path]],
    *, rank: int, ranks: int, rendezvous: Path, report: Any,
) -> list[Any]:  # fmt: skip
    """Several runs in the same processes, since their start is what takes long."""
    return [
        sft.member(
            start, data, settings, "cpu", root / "work", root / "output", rank=rank, ranks=ranks,
            rendezvous=rendezvous.with_name(f"rendezvous.{number}"), report=report,
        )
        for number, (settings, root) in enumerate(runs)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def pair(world: World, base: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on two ranks; `again` went on from the state that `two` left after step 6."""
    root = tmp_path_factory.mktemp("pair")
    for name in ("two", "again", "shared", "packed"):
        (root / name / "work").mkdir(parents=True)
        (root / name / "output").mkdir()
    (root / "again/work").rmdir()
    (root / "again/work").symlink_to(root / "two/work")
    runs = [
        (TWO, root / "two"), (TWO, root / "again"), (SHARED, root / "shared"),
        (PACKED, root / "packed"),
    ]  # fmt: skip
    data = {name: getattr(world, name) / "train.jsonl" for name in MIXED.mixture.parts}
    ranks.run(2, _runs, [base, data, runs], lambda *_: None)
    return root


@pytest.fixture(scope="module")
def alone(world: World, base: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on one rank."""
    root = tmp_path_factory.mktemp("alone")
    _finetune(base, world, MIXED, root)
    _finetune(base, world, replace(PACKED, ranks=1), root / "packed")
    return root


def _same_trajectory(one: Path, other: Path) -> None:
    """To fp32 rounding, which eight steps of Muon amplify."""
    pairs = zip(
        read(one / "output/metrics.jsonl"), read(other / "output/metrics.jsonl"), strict=True
    )
    for mine, theirs in pairs:
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert mine["targets"] == theirs["targets"]


def test_two_ranks_train_what_one_would(pair: Path, alone: Path) -> None:
    _same_trajectory(pair / "two", alone)


def test_two_ranks_that_share_rows_train_what_one_would(pair: Path, alone: Path) -> None:
    """And keep what they have on the way, whole."""
    _same_trajectory(pair / "shared", alone)
    [kept] = keeping.kept(pair / "shared/output")
    assert kept.step == 5
    checkpoint.load_model(kept.path, kept.facts)


def test_two_ranks_train_on_bins_what_one_would(pair: Path, alone: Path) -> None:
    _same_trajectory(pair / "packed", alone / "packed")


def test_two_ranks_go_on_bit_equal(pair: Path) -> None:
    weights = [
        (pair / name / "output/model/model.safetensors").read_bytes() for name in ("two", "again")
    ]
    assert weights[0] == weights[1]
    assert read(pair / "two/output/metrics.jsonl") == read(pair / "again/output/metrics.jsonl")


def test_one_rank_goes_on_from_the_state_of_two(
    world: World, base: Start, pair: Path, alone: Path, tmp_path: Path
) -> None:
    shutil.copytree(pair / "two/work", tmp_path / "work")
    resumed: list[int] = []
    _, facts = _finetune(base, world, MIXED, tmp_path, lambda step, *_: resumed.append(step))
    assert resumed == [7, 8]
    assert facts["world_size"] == 1
    assert [(way["world_size"], way["until"]) for way in facts["earlier"]] == [(2, 6)]
    _same_trajectory(tmp_path, alone)
    checkpoint.load_model(tmp_path / "output", facts)


def test_heads_that_ranks_cannot_share_are_told(base: Start) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    with pytest.raises(ValueError, match="sequence_parallel 3 divides neither 2 attention heads"):
        sequence.use(model, 3)


def test_settings_are_one_rank_unless_stated() -> None:
    assert (SETTINGS.ranks, SETTINGS.sequence_parallel) == (1, 1)
