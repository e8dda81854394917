"""A wrong recipe gets one line per fault: place, what, nearest valid name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.recipe.schema import VERIFIERS
from posttrain.reports import describe
from posttrain.store import Store
from rewards.verifiers import BUILT_IN
from tests.core.runs import SMALL, write

RECIPES = sorted(Path("recipes").glob("*.yaml"))


def plan_of(folder: Path, text: str, *changes: str) -> Plan:
    return resolve(load(write(folder, text), changes), Store(folder / "store"))


def keys(plan: Plan) -> dict[str, str]:
    return {name: node.key for name, node in plan.nodes.items()}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "vocabulary: 600",
            "vocabularry: 600",
            r"r.yaml:11: unknown key .*'vocabulary'",
        ),
        ("    vocabulary: 600\n", "", r"r.yaml:8: stages.tokens.vocabulary is missing"),
        ("vocabulary: 600", "vocabulary: many", r"r.yaml:11: stages.tokens.vocabulary: .*'many'"),
        ("vocabulary: 600", "vocabulary: 3", r"r.yaml:11: .*greater than or equal to 300"),
        ("seed: 1\n", "seed: 1\nseed: 2\n", r"r.yaml:3: .*[dD]uplicate key"),
        (
            "seed: 1\n",
            "sed: 1\n",
            r"r.yaml:2: unknown key in the recipe: 'sed'; did .* 'seed'",
        ),
        ("seed: 1\n", "", r"r.yaml:1: seed is missing"),
        ("kind: tokenizer", "kind: tokenize", r"r.yaml:9: unknown stage kind.*'tokenizer'"),
        ("tiny.corpus", "tiny.corpse", r"r.yaml:5: data.corpus.*unknown generator 'tiny.corpse'"),
        ("documents: 64", "documentz: 64", r"r.yaml:5: .*documentz"),
        ("[corpus, dialogues]", "[corpus, dialogs]", r"r.yaml:10: .*did you mean 'dialogues'"),
        ("  tokens:", "  corpus:", r"'corpus' is declared twice"),
        ("backend: cpu", "backend: tpu", r"r.yaml:3: backend: .*'tpu'"),
        ("data:\n", "data:\n  - x: [\n", r"r.yaml:\d+: not valid YAML"),
    ],
)
def test_one_clear_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(ValueError, match=message) as fault:
        plan_of(tmp_path, SMALL.replace(old, new, 1))
    assert "Traceback" not in str(fault.value)


GATED = """promote:
  checkpoint: tokens
  to: candidate
  gates: [{suite: chains, against: tokens, superior_by: BAR}]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("vocabulary:", "vocabulry:", "stages.tokens: 'vocabulry'; did you mean 'vocabulary'?"),
        ("BAR", "25%", "superior_by: a difference carries its unit: write `25 points`"),
        ("BAR", "5", "superior_by: a difference carries its unit: write `5 points`"),
        ("{suite: chains, against: tokens, superior_by: BAR}", "equivalent",
         "unknown gate: 'equivalent'; did you mean 'equivalence'?"),
    ],
)  # fmt: skip
def test_one_fault_is_told_once(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SMALL + (GATED if old in GATED else "")
    with pytest.raises(ValueError, match=r"r.yaml") as fault:
        plan_of(tmp_path, text.replace(old, new))
    assert str(fault.value).endswith(message)
    assert "\n" not in str(fault.value)


SERVED = SMALL + "services:\n  rewards:\n    verifiers: [answer]\n"


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (
            "verifiers: [math, anser]",
            r"r.yaml:14: services.rewards.verifiers: no verifier 'anser' .* did you mean 'answer'?",
        ),
        ("verifiers: [nonsense]", r"r.yaml:14: .*, nor is that NAME=MODULE; known: answer, code, "),
        ("verifiers: [mine=]", r"r.yaml:14: .*no verifier 'mine='"),
        (
            "verifiers: [mine]\n    url: localhost:8090",
            r"r.yaml:15: services.rewards.url: must be http://HOST:PORT .*'localhost:8090'",
        ),
        ("verifiers: [mine]\n    url: ftp://host/", r"r.yaml:15: .*url: must be http"),
        ("verifiers: [mine]\n    url: 'http://'", r"r.yaml:15: .*url: must be http"),
        ("verifiers: [mine]\n    url: 'http://[::1'", r"r.yaml:15: .*url: must be http"),
    ],
)
def test_a_reward_service_that_cannot_be_is_refused(
    tmp_path: Path, rewards: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as fault:
        plan_of(tmp_path, SERVED.replace("verifiers: [answer]", rewards))
    assert len(str(fault.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("services.rewards.verifiers=[answer, rules]",
         r"quickstart.yaml:75: stages.rl.sources.formulas.verifier: .* has no 'math'"),
        ("stages.rl.sources.sums.verifier=anser",
         r"stages.rl.sources.sums.verifier: services.rewards.verifiers has no 'anser'"),
        ("suites.answers.data=dialogues.holdout",
         r"suite answers reads dialogues.holdout, and dialogues has train alone"),
        ("suites.answers.data=sum.holdout", r"suite answers reads 'sum', .* did you mean 'sums'"),
        ("suites.answers.data=sums", r"suites.answers.data: write ENTRY.train or ENTRY.holdout"),
        ("stages.scores.of=[stf]", r"the `of` of scores names 'stf', .* did you mean 'sft'"),
        ("stages.sft.data={dialogues: 60%, manners: 60%}", r"got dialogues 60%, manners 60%"),
    ],
)  # fmt: skip
def test_names_are_looked_up_before_anything_runs(
    tmp_path: Path, change: str, message: str
) -> None:
    recipe = Path("recipes/quickstart.yaml")
    with pytest.raises(ValueError, match=message):
        resolve(load(recipe, [change]), Store(tmp_path))


def test_verifiers_of_others_are_taken_as_they_are(tmp_path: Path) -> None:
    for rewards in ("verifiers: [mine=a.module]", "verifiers: [mine]\n    url: https://host:8090"):
        assert plan_of(tmp_path, SERVED.replace("verifiers: [answer]", rewards)).pending()


def test_the_verifiers_that_a_recipe_knows_are_those_built_in() -> None:
    assert tuple(BUILT_IN) == VERIFIERS


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    wrong = SMALL.replace("vocabulary", "vocab").replace("documents: 64", "documents: -4")
    with pytest.raises(ValueError, match=r"r.yaml:5") as fault:
        plan_of(tmp_path, wrong)
    assert len(str(fault.value).splitlines()) >= 2


def test_a_cycle_is_named(tmp_path: Path) -> None:
    trained = "kind: sft, data: dialogues, steps: 1, optimizer: {adamw: {lr: 1}}"
    ring = f"{SMALL}  a: {{from: b, {trained}}}\n  b: {{from: a, {trained}}}\n"
    with pytest.raises(ValueError, match=r"r.yaml:1[23]: stages form a cycle: (a <- b|b <- a)"):
        plan_of(tmp_path, ring)


def test_a_missing_file_and_a_missing_parent_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.yaml: cannot be read \(No such file"):
        load(tmp_path / "none.yaml")
    child = write(tmp_path, "recipe: x\nextends: other.yaml\n")
    with pytest.raises(ValueError, match=r"r.yaml:2: extends 'other.yaml': cannot be read"):
        load(child)
    with pytest.raises(ValueError, match=r"r.yaml:1: extends '.': cannot be read \(Is a directory"):
        load(write(tmp_path, "extends: .\n"))


@pytest.mark.parametrize("parent", ["r.yaml", "other.yaml"])
def test_extends_never_goes_round(tmp_path: Path, parent: str) -> None:
    write(tmp_path, "extends: ./r.yaml\n", "other.yaml")
    with pytest.raises(ValueError, match=r"yaml:1: extends '.*', which extends this file in turn"):
        load(write(tmp_path, f"extends: {parent}\n"))


def test_a_fault_in_what_is_extended_is_placed_there_unless_the_child_replaced_it(
    tmp_path: Path,
) -> None:
    write(tmp_path, SMALL.replace("vocabulary: 600", "vocabulary: 3"), "base.yaml")
    child = "extends: base.yaml\nstages:\n  tokens: {vocabulary: VALUE}\n"
    assert plan_of(tmp_path, child.replace("VALUE", "600"))
    with pytest.raises(ValueError, match=r"r.yaml:3: stages.tokens.vocabulary"):
        plan_of(tmp_path, child.replace("VALUE", "4"))
    with pytest.raises(ValueError, match=r"base.yaml:11: stages.tokens.vocabulary"):
        plan_of(tmp_path, "extends: base.yaml\n")


def test_an_input_of_the_wrong_kind_is_refused_before_anything_runs(tmp_path: Path) -> None:
    wrong = SMALL + "  next: {kind: tokenizer, data: [tokens], vocabulary: 600}\n"
    with pytest.raises(ValueError, match=r"r.yaml:12: .* whose kind is tokenizer; .* for data"):
        plan_of(tmp_path, wrong)


def test_extends_changes_only_what_it_says(tmp_path: Path) -> None:
    base = plan_of(tmp_path, SMALL)
    write(tmp_path, SMALL, "base.yaml")
    child = plan_of(
        tmp_path, "extends: base.yaml\nrecipe: child\nstages:\n  tokens: {vocabulary: 700}\n"
    )
    assert child.recipe.name == "child"
    changed = {name for name in base.nodes if keys(base)[name] != keys(child)[name]}
    assert changed == {"tokens"}


def test_set_changes_that_stage_and_what_depends_on_it(tmp_path: Path) -> None:
    before = keys(plan_of(tmp_path, SMALL))
    tokens = keys(plan_of(tmp_path, SMALL, "stages.tokens.vocabulary=700"))
    assert {name for name in before if before[name] != tokens[name]} == {"tokens"}
    rows = keys(plan_of(tmp_path, SMALL, "data.dialogues.rows=33"))
    assert {name for name in before if before[name] != rows[name]} == {"dialogues", "tokens"}


def test_order_comments_and_spelling_of_values_do_not_change_keys(tmp_path: Path) -> None:
    reordered = (
        SMALL.replace("documents: 64, holdout: 8", "holdout: 8, documents: 64  ") + "# remark\n"
    )
    assert keys(plan_of(tmp_path, reordered)) == keys(plan_of(tmp_path, SMALL))


@pytest.mark.parametrize("change", ["stages.tokens.vocab=1", "stages.none=1", "seed", "=3"])
def test_a_wrong_set_is_named(tmp_path: Path, change: str) -> None:
    with pytest.raises(ValueError, match="--set"):
        plan_of(tmp_path, SMALL, change)


def test_until_keeps_what_the_stage_needs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL)
    assert set(plan.until("dialogues").nodes) == {"dialogues"}
    with pytest.raises(ValueError, match="did you mean 'tokens'"):
        plan.until("token")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_planned(tmp_path: Path, path: Path) -> None:
    described = describe(resolve(load(path), Store(tmp_path)))
    assert {"name", "kind", "key", "state", "inputs"} <= described["stages"][0].keys()
    done: set[str] = set()
    for stage in described["stages"]:
        assert set(stage["inputs"].values()) <= done
        done.add(stage["name"])


def test_a_gate_on_what_nobody_measures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no evaluate stage measures"):
        resolve(
            load(Path("recipes/quickstart.yaml"), ["stages.scores.of=[base, rl]"]), Store(tmp_path)
        )


def test_planning_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = "('torch', 'ray', 'verl', 'vllm', 'transformers', 'tokenizers')"
    program = (
        "import sys; sys.argv[1:] = ['plan', 'recipes/quickstart.yaml', '--json', '--store', "
        f"{str(tmp_path)!r}]\nfrom posttrain.cli import app\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(','.join(m for m in {heavy} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["recipe"] == "quickstart"
