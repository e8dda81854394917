"""Long-context data in a recipe: wired to sources and tokenizer, and the same from run to run."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.data import tiny
from posttrain.data.generators import GENERATORS, Derived
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.stages import StageContext, data
from posttrain.store import Store
from posttrain.training.examples import dialogues, targets
from tests.data.longcontext.samples import chat, diary

FROM: dict[str, Any] = {
    "documents": ["diaries", "corpus"], "tokenizer": "words", "target": 1024,
    "tokens": {"hard": 3000, "easy": 3000},
}  # fmt: skip
ASKED: dict[str, dict[str, Any]] = {
    "longcontext.word_counts": FROM,
    "longcontext.section_orders": FROM,
    "longcontext.lookups": {
        "tokenizer": "words", "rows": 3, "holdout": 2, "target": 1024, "dictionaries": 6,
    },
    "longcontext.probes": {"tokenizer": "words", "rows": 1, "lengths": [600]},
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("inputs")
    sources = {
        "data.diaries": [{"text": diary(seed, 6 + seed)} for seed in range(20)],
        "data.corpus": tiny.corpus(0, 40),
    }
    for role, rows in sources.items():
        (root / role).mkdir()
        (root / role / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    chat().tokenizer.save_pretrained(root / "tokenizer")
    return {role: root / role for role in (*sources, "tokenizer")}


def generated(name: str, run: int, folders: dict[str, Path], **changes: Any) -> Any:
    generator = GENERATORS[name]
    assert isinstance(generator, Derived)
    asked = generator.parameters.model_validate(ASKED[name] | changes)
    return generator.make(run, asked, folders)


@pytest.mark.parametrize("name", ASKED)
def test_rows_are_a_function_of_inputs_parameters_and_seed(
    name: str, folders: dict[str, Path]
) -> None:
    splits, figures = generated(name, 3, folders)
    assert (splits, figures) == generated(name, 3, folders)
    assert splits != generated(name, 4, folders)[0]
    for split, rows in splits.items():
        assert rows
        assert split == "holdout" or all(row["length"] <= 1024 for row in rows)
        assert json.loads(json.dumps(rows)) == rows


def test_the_share_that_is_learned_is_told(folders: dict[str, Path]) -> None:
    shares = {
        name: generated(name, 0, folders)[1]["target_share"]
        for name in ASKED
        if "probe" not in name
    }
    assert shares["longcontext.word_counts"] > 0.5  # the document counts too
    assert 0 < shares["longcontext.section_orders"] < 0.05
    assert 0 < shares["longcontext.lookups"] < 0.1


def test_a_seed_of_its_own_replaces_the_recipes(folders: dict[str, Path]) -> None:
    own = generated("longcontext.word_counts", 1, folders, seed=101)
    assert own == generated("longcontext.word_counts", 2, folders, seed=101)
    assert own != generated("longcontext.word_counts", 1, folders, seed=202)


RECIPE = """
recipe: long
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 64}
  counts: {generate: longcontext.word_counts, documents: [corpus], tokenizer: words, target: 128,
           tokens: {hard: 500, easy: 0}}
  probes: {generate: longcontext.probes, tokenizer: words, rows: 2, lengths: [1024]}
suites:
  context: {kind: long_context, data: probes.holdout}
stages:
  words: {kind: tokenizer, data: [corpus], vocabulary: 500}
"""


def planned(folder: Path, recipe: str) -> Any:
    (folder / "r.yaml").write_text(recipe)
    return resolve(load(folder / "r.yaml"), Store(folder / "store"))


def test_a_plan_knows_what_the_rows_are_made_from(tmp_path: Path) -> None:
    plan = planned(tmp_path, RECIPE)
    assert plan.nodes["counts"].inputs == {"tokenizer": "words", "data.corpus": "corpus"}
    assert plan.nodes["probes"].inputs == {"tokenizer": "words"}
    other = planned(tmp_path, RECIPE.replace("documents: 64", "documents: 65"))
    assert other.nodes["counts"].key != plan.nodes["counts"].key


def test_an_unknown_source_is_refused(tmp_path: Path) -> None:
    recipe = RECIPE.replace("documents: [corpus]", "documents: [corps]")
    with pytest.raises(ValueError, match=r"counts takes its input 'data\.corps' from 'corps'"):
        planned(tmp_path, recipe)


def test_the_stage_writes_rows_and_figures(tmp_path: Path, folders: dict[str, Path]) -> None:
    asked = {"generate": "longcontext.section_orders"} | FROM
    context: Any = StageContext(
        name="orders", config=data.Config.model_validate(asked),
        inputs={role: SimpleNamespace(path=path) for role, path in folders.items()},  # type: ignore[misc]
        output=tmp_path, work=tmp_path / "work", seed=3, backend="cpu", services={}, suites={},
        report=lambda progress: None,
    )  # fmt: skip
    outcome = data.run(context)
    splits, figures = generated("longcontext.section_orders", 3, folders)
    written = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert written == splits["train"]
    assert outcome.metrics == {
        "rows.train": len(written), "tokens.train": figures["tokens"],
        "optimised_tokens.train": figures["targets"], **figures,
    }  # fmt: skip
    examples = dialogues(tmp_path / "train.jsonl", chat().tokenizer, 1024)
    assert sum(map(targets, examples)) == figures["targets"]
