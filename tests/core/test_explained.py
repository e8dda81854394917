"""An explained plan: what changed field by field, what hangs on it, and how it is drawn."""

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain import drawing, explained
from posttrain.explained import Reason
from posttrain.plan import Node, Plan
from posttrain.stages import data as data_stage
from posttrain.store import Store
from tests.core.executed import executed, planned
from tests.core.runs import SMALL, Ended, ended, write
from tests.core.test_schedule import node
from tests.core.test_schedule import plan as plan_of

MORE = SMALL + "  other: {kind: tokenizer, data: [dialogues], vocabulary: 600}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe of a small plan, all of whose nodes are in the store beside it."""
    recipe = write(tmp_path_factory.mktemp("explained"), MORE)
    executed(recipe)
    return recipe


def reasons(recipe: Path, *changes: str) -> dict[str, Reason]:
    return explained.reasons(planned(recipe, *changes), Store(recipe.parent / "store"))


def told(recipe: Path, *changes: str) -> dict[str, str]:
    return {name: reason.told() for name, reason in reasons(recipe, *changes).items()}


def test_what_is_there_is_reused(made: Path) -> None:
    assert told(made) == {
        name: f"{name}: reuse small/{name}@1" for name in ("corpus", "dialogues", "tokens", "other")
    }


def test_a_changed_field_is_named_with_what_hangs_on_it(made: Path) -> None:
    found = told(made, "data.dialogues.rows=33")
    assert found["dialogues"] == (
        "dialogues: run, dialogues.rows 32 -> 33; 2 downstream stages (against small/dialogues@1)"
    )
    assert found["tokens"] == "tokens: run, input dialogues changed (against small/tokens@1)"
    assert found["corpus"] == "corpus: reuse small/corpus@1"
    both = told(made, "data.dialogues.rows=33", "stages.tokens.vocabulary=601")
    assert both["tokens"] == (
        "tokens: run, tokens.vocabulary 600 -> 601; input dialogues changed "
        "(against small/tokens@1)"
    )


def test_seed_inputs_and_code_are_named_too(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "seed 1 -> 2" in told(made, "seed=2")["corpus"]
    found = told(made, "stages.tokens.data=[corpus]")["tokens"]
    assert "input data.dialogues is gone" in found
    assert 'tokens.data ["corpus", "dialogues"] -> ["corpus"]' in found.replace("'", '"')
    assert "input corpus is new" in told(made, "stages.other.data=[corpus]")["other"]
    before = data_stage.VERSION
    monkeypatch.setattr(data_stage, "VERSION", before + 1)
    assert f"code version {before} -> {before + 1}" in told(made)["corpus"]


def test_digests_that_stand_in_no_config_are_named() -> None:
    stage = node("files")
    record = {"version": 1, "config": {}, "suites": {}, "seed": 0, "backend": "cpu", "inputs": {}}
    after = Node(**{**vars(stage), "identity": {**record, "digests": {"train.jsonl": "b"}}})
    changed = explained.changes(after, {**record, "digests": {"train.jsonl": "a"}})
    assert list(changed) == ["train.jsonl digest changed"]


def test_a_stage_of_another_run_is_compared_with_where_this_run_has_none(made: Path) -> None:
    other = write(made.parent, MORE.replace("recipe: small", "recipe: second"), "second.yaml")
    assert told(other)["tokens"] == "tokens: reuse small/tokens@1"
    assert "against small/corpus@1" in told(other, "data.corpus.documents=65")["corpus"]
    fresh = reasons(write(made.parent, MORE.replace("other:", "third:"), "third.yaml"), "seed=3")
    assert fresh["third"].told() == "third: run, for the first time"


def plan_command(recipe: Path, *arguments: str) -> Ended:
    return ended(recipe.parent, "plan", str(recipe), *arguments)


def test_the_command_tells_and_draws(made: Path) -> None:
    change = ("--set", "data.dialogues.rows=33")
    done = plan_command(made, *change)
    assert "dialogues.rows 32 -> 33; 2 downstream stages" in done.out
    assert "behind dialogues" in done.out
    picture = made.parent / "plan.svg"
    tree = plan_command(made, *change, "--tree", "--svg", str(picture))
    assert "├─ tokens (tokenizer, run) + dialogues" not in tree.out
    assert "└─ tokens (tokenizer, run) + dialogues\n" in tree.out
    assert "└─ other (tokenizer, run)\n" in tree.out
    boxes = ET.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}g")
    assert len(boxes) == 4
    values = json.loads(plan_command(made, *change, "--json").out)
    reason = values["reasons"]["dialogues"]
    assert reason["changes"] == ["dialogues.rows 32 -> 33"]
    assert (reason["state"], reason["downstream"]) == ("run", 2)
    assert values["reasons"]["tokens"]["behind"] == ["dialogues"]


@st.composite
def dags(draw: st.DrawFn) -> Plan:
    """Plans of up to a dozen nodes; inputs stand before their users."""
    nodes: list[Node] = []
    for at in range(draw(st.integers(1, 12))):
        chosen = draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set()
        nodes.append(node(f"n{at}", tuple(f"n{each}" for each in sorted(chosen))))
    return plan_of(*nodes)


@settings(deadline=None)
@given(dags())
def test_pictures_show_every_node_once_and_arrows_point_right(plan: Plan) -> None:
    found = drawing.layers(plan)
    at = {name: column for column, layer in enumerate(found) for name in layer}
    assert sorted(at) == sorted(plan.nodes)
    assert sum(map(len, found)) == len(plan.nodes)
    assert all(layer for layer in found)
    for each in plan.nodes.values():
        assert all(at[source] < at[each.name] for source in each.inputs.values())
    root = ET.fromstring(drawing.svg(plan))
    arrows = root.findall("{http://www.w3.org/2000/svg}path")
    assert len(arrows) == sum(len(set(each.inputs.values())) for each in plan.nodes.values())
    lines = list(explained.tree(plan))
    assert len(lines) == len(plan.nodes)


def test_a_removed_artifact_is_run_again(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made.parent, tmp_path / "copy")
    recipe = tmp_path / "copy/r.yaml"
    store = Store(recipe.parent / "store")
    store.remove(store.get("small/other@1"))
    assert told(recipe)["other"] == "other: run, for the first time"
