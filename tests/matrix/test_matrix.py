"""The matrix shows what is in the store: shares, intervals, true changes, and nothing sealed."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.gates import Scores
from posttrain.matrix.cells import Matrix, cell, matrix
from posttrain.matrix.picture import svg
from tests.core.runs import ended
from tests.gates.test_promotion import carried_out

SPACE = "{http://www.w3.org/2000/svg}"


def scores(right: int, wrong: int, digest: str = "d", group: str = "de") -> Scores:
    attempts = [[1.0]] * right + [[0.0]] * wrong
    return Scores(attempts, [[group]] * len(attempts), digest)


def test_the_run_of_a_store_is_shown_without_sealed_suites(tmp_path: Path) -> None:
    carried_out(tmp_path, base=300, sft=298)
    done = ended(tmp_path, "matrix", "mine")
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if "chains" in line]
    assert lines == ["│ chains     │ 0.250 (0.210 to 0.295) │ 0.500 ▲ (0.451 to 0.549) │"]
    assert "safety" not in done.out


def test_json_and_picture_have_the_same_figures(tmp_path: Path) -> None:
    carried_out(tmp_path, base=300, sft=298)
    picture = tmp_path / "m.svg"
    done = ended(tmp_path, "matrix", "mine", "--json", "--svg", str(picture))
    told = json.loads(done.out)
    assert told["checkpoints"] == ["base", "sft"]
    after = told["capabilities"]["chains"]["sft"]
    assert (after["accuracy"], after["prompts"], after["change"]) == (0.5, 400, 1)
    drawn = [text.text for text in ElementTree.parse(picture).iter(f"{SPACE}text")]
    assert {"base", "sft", "chains", "0.500 ▲", "0.451 to 0.549"} <= set(drawn)


def test_a_run_that_is_unknown_or_unmeasured_is_refused(tmp_path: Path) -> None:
    carried_out(tmp_path, base=300, sft=298)
    assert "has not been started" in ended(tmp_path, "matrix", "other").err
    for path in (tmp_path / "store/artifacts/mine").glob("scores.*/1/scores.json"):
        path.unlink()
    empty = ended(tmp_path, "matrix", "mine")
    assert empty.code == 2
    assert "no checkpoint of run mine has scores" in empty.err


def test_a_loss_is_marked_only_where_it_is_more_than_chance() -> None:
    before = scores(50, 0)
    assert cell(scores(46, 4), before).change == 0
    assert cell(scores(45, 5), before).change == -1
    assert cell(scores(45, 5, digest="other"), before).change == 0
    tried = Scores([[1.0, 0.0]] * 50, [[]] * 50, "d")
    assert cell(tried, before).change == -1


def test_a_checkpoint_without_figures_leaves_a_gap_and_the_next_is_compared_across_it() -> None:
    found = matrix("r", {"a": {"x": scores(50, 0)}, "b": {}, "c": {"x": scores(20, 30)}})
    assert ("x", "b") not in found.cells
    assert found.cells["x", "c"].change == -1


def test_groups_stand_below_their_suite() -> None:
    mixed = Scores([[1.0], [0.0], [1.0]], [["de"], ["fr"], ["fr"]], "d")
    found = matrix("r", {"a": {"x": mixed, "y": scores(1, 1)}, "b": {"z": mixed}}, groups=True)
    assert found.capabilities == ["x", "x.de", "x.fr", "y", "y.de", "z", "z.de", "z.fr"]
    assert found.cells["x.fr", "a"].accuracy == 0.5
    assert matrix("r", {"a": {"x": mixed}}).capabilities == ["x"]


attempts = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2), min_size=2,
                    max_size=30)  # fmt: skip


@given(attempts)
def test_an_interval_holds_its_share_and_lies_within_nought_and_one(
    tried: list[list[float]],
) -> None:
    found = cell(Scores(tried, [[]] * len(tried), "d"), None)
    assert 0 <= found.low <= found.high <= 1
    assert found.low < found.high  # Few prompts that are all alike are no proof.
    assert found.low - 0.5 / len(tried) <= found.accuracy <= found.high + 0.5 / len(tried)


@pytest.mark.parametrize("name", ["<b>&amp;", 'a"b'])
def test_names_are_escaped_in_the_picture(name: str) -> None:
    found = Matrix("r", [name], [name], {(name, name): cell(scores(1, 1), None)})
    texts = [text.text for text in ElementTree.fromstring(svg(found)).iter(f"{SPACE}text")]
    assert texts.count(name) == 2
