"""Select: the best of all candidates, in a real chain of stages, with a real reward service."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.evaluation.scoring import Examiner
from posttrain.evaluation.suites import Preference
from posttrain.stages import adopt, select
from posttrain.stages.select import Config, best_of, parts, value
from posttrain.store import Artifact
from posttrain.training import checkpoint, keeping
from posttrain.training.sft import Start
from tests.core.executed import executed, planned
from tests.core.runs import write
from tests.rewards.service import Service, serving
from tests.training.conftest import read

RECIPE = """\
recipe: choice
seed: 1
backend: cpu
services: {rewards: {verifiers: [answer], workers: 1}}
data:
  dialogues: {generate: tiny.dialogues, rows: 24}
  pairs: {generate: tiny.pairs, rows: 4, holdout: 24}
  notes: {generate: tiny.needles, holdout: 4, lengths: [48, 64]}
suites:
  taste: {kind: preference, data: pairs.holdout}
  retrieval: {kind: needles, data: notes.holdout, max_new_tokens: 4}
stages:
  base: {kind: adopt, path: base, digest: DIGEST}
  long:
    {kind: sft, from: base, data: dialogues, steps: 5, batch: 4, optimizer: {adamw: {lr: 2e-2}},
     context: {length: 600, rope: {theta: 800}}, save_every: 3, keep_every: 2}
  best: {kind: select, of: [base, long], suite: taste, by: min, over: [sum, max]}
  after: {kind: sft, from: best, data: dialogues, steps: 1, optimizer: {adamw: {lr: 1e-3}}}
  reach: {kind: select, of: [long, base], suite: retrieval, by: mean}
"""
PARTS = {"accuracy": 0.5, "accuracy.64": 0.9, "accuracy.128": 0.1, "accuracy.needle": 0.4,
         "accuracy.needle.64": 0.8, "low.64": 0.2}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, "--verifiers", "answer", "--workers", "1") as found:
        yield found


@pytest.fixture(scope="module")
def recipe(base: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, with the checkpoint it adopts beside it."""
    folder = tmp_path_factory.mktemp("choice")
    shutil.copytree(base.path / "model", folder / "base")
    return write(folder, RECIPE.replace("DIGEST", adopt.digest_of(folder / "base")))


@pytest.fixture(scope="module")
def done(recipe: Path, service: Service) -> dict[str, Artifact]:
    """All artifacts of the recipe."""
    return executed(recipe, urls={"rewards": service.url})


def asked(**config: object) -> Config:
    return Config.model_validate({"of": ["long"], "suite": "taste", "by": "mean", **config})


def test_the_best_of_all_checkpoints_is_taken(done: dict[str, Artifact], recipe: Path) -> None:
    """Measured anew, each candidate has the figures that decided."""
    found = done["best"].record.facts["selected"]
    assert list(found["values"]) == ["base", "long.2", "long.4", "long"]
    suite, rows = Preference(kind="preference", data="pairs.holdout"), done["pairs"].path
    for each in select.candidates(["base", "long"], {f"from.{n}": done[n] for n in done}):
        figures = Examiner(each.checkpoint, "", seed=1).measure(suite, rows)
        assert found["values"][each.name] == min(figures["accuracy.sum"], figures["accuracy.max"])
    name = found["stage"] if found["step"] is None else f"{found['stage']}.{found['step']}"
    assert found["values"][name] == max(found["values"].values())
    assert done["best"].record.metrics["selected"] == found["values"][name]
    assert found["over"] == ["sum", "max"]


def test_what_is_taken_is_a_checkpoint_like_any_other(done: dict[str, Artifact]) -> None:
    best, facts = done["best"], done["best"].record.facts
    checkpoint.load_model(best.path, facts)
    scores = json.loads((best.path / "scores.json").read_bytes())
    assert scores.keys() == facts["selected"]["values"].keys()
    start = done["after"].record.identity["inputs"]["from"]
    assert start == best.record.key
    assert done["after"].record.facts["rope"] == facts["rope"]


def test_of_equal_candidates_the_earliest_is_taken(done: dict[str, Artifact]) -> None:
    """A model of twelve steps finds no needle, nor does what was trained from it."""
    found = done["reach"].record.facts["selected"]
    assert found["over"] == ["48", "64"]
    assert set(found["values"].values()) == {0.0}
    assert (found["stage"], found["step"]) == ("long", 2)
    kept = json.loads((done["long"].path / "checkpoints/2/facts.json").read_bytes())
    assert done["reach"].record.facts["weights_sha256"] == kept["weights_sha256"]
    assert done["reach"].record.facts["rope"]["parameters"]["rope_theta"] == 800


def test_checkpoints_on_the_way_are_kept_whole(done: dict[str, Artifact]) -> None:
    record = done["long"].record
    assert record.facts["kept"] == [2, 4]
    digests = set()
    for each in select.candidates(["long"], {"from.long": done["long"]}):
        checkpoint.load_model(each.checkpoint.path, each.checkpoint.record.facts)
        digests.add(each.checkpoint.record.facts["weights_sha256"])
    assert len(digests) == 3
    done["long"].verify()


def test_keeping_changes_nothing_else(done: dict[str, Artifact], recipe: Path) -> None:
    """And what is no part of the key changes no bit: saved at other steps, with a pace."""
    plain = recipe.parent / "plain"
    plain.mkdir()
    shutil.copytree(recipe.parent / "base", plain / "base")
    text = recipe.read_text().replace(", keep_every: 2", ", peak_flops: 1e12")
    stages = text.index("  best:")
    alone = executed(write(plain, text[:stages].replace("save_every: 3", "save_every: 1")))["long"]
    theirs = done["long"].record
    assert alone.record.facts["weights_sha256"] == theirs.facts["weights_sha256"]
    assert read(alone.path / "metrics.jsonl") == read(done["long"].path / "metrics.jsonl")
    assert {**alone.record.facts, "kept": [2, 4]} == theirs.facts


def test_only_what_changes_no_bit_is_left_out_of_the_key(
    done: dict[str, Artifact], recipe: Path
) -> None:
    for change in ("save_every=1", "peak_flops=1e15"):
        assert planned(recipe, f"stages.long.{change}").nodes["long"].cached
    before = planned(recipe).nodes["long"]
    for change in ("ranks=2", "threads=2", "steps=6"):
        node = planned(recipe, f"stages.long.{change}").nodes["long"]
        assert not node.cached
        assert (node.work_key == before.work_key) == (change != "steps=6")


def test_an_interrupted_selection_measures_the_rest_only(
    recipe: Path, service: Service, done: dict[str, Artifact]
) -> None:
    """The key is another one, as `by` is; the second of four candidates ends it."""
    changes = ("stages.best.by=mean",)
    measure, measured = Examiner.measure, []

    def counted(examiner: Examiner, *given: object, **named: object) -> Mapping[str, float]:
        measured.append(examiner)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measure(examiner, *given, **named)  # type: ignore[arg-type]

    with mock.patch.object(Examiner, "measure", counted):
        with pytest.raises(KeyboardInterrupt):
            executed(recipe, *changes, urls={"rewards": service.url})
        again = executed(recipe, *changes, urls={"rewards": service.url})
    assert len(measured) == 2 + 3
    values = again["best"].record.facts["selected"]["values"]
    assert list(values) == ["base", "long.2", "long.4", "long"]


def test_unfinished_training_goes_on_in_another_way(base: Start, recipe: Path) -> None:
    """Killed after step 4, with the state of step 3, then on two threads; it says so."""
    folder = recipe.parent / "interrupted"
    folder.mkdir()
    shutil.copytree(recipe.parent / "base", folder / "base")
    text = recipe.read_text()
    path = write(folder, text[: text.index("  best:")])
    with (
        mock.patch("posttrain.training.keeping.keep", side_effect=[None, KeyboardInterrupt]),
        pytest.raises(KeyboardInterrupt),
    ):
        executed(path)
    assert not planned(path, "stages.long.threads=2").nodes["long"].cached
    found = executed(path, "stages.long.threads=2")["long"].record
    way = {"world_size": 1, "sequence_parallel": 1, "threads": 1, "until": 3}
    assert found.facts["earlier"] == [way]
    assert found.facts["threads"] == 2
    assert found.identity["config"]["threads"] == 2


@pytest.mark.parametrize(
    ("config", "decided", "names"),
    [
        ({"by": "min"}, 0.1, ["64", "128"]),
        ({"by": "mean"}, 0.5, ["64", "128"]),
        ({"by": "mean", "over": [128, "needle"]}, 0.25, ["128", "needle"]),
        ({"by": 128}, 0.1, ["128"]),
        ({"by": "needle.64"}, 0.8, ["needle.64"]),
    ],
)
def test_what_decides_is_declared(
    config: dict[str, object], decided: float, names: list[str]
) -> None:
    assert value(asked(**config), PARTS) == pytest.approx(decided)
    assert parts(asked(**config), PARTS) == names


def test_a_suite_without_lengths_is_decided_by_its_parts_or_as_a_whole() -> None:
    assert value(asked(by="min"), {"accuracy": 0.5, "accuracy.sum": 0.2}) == 0.2
    assert value(asked(by="min"), {"accuracy": 0.5, "loss": 9.0}) == 0.5


def test_a_missing_part_is_an_error() -> None:
    for config in ({"by": "96"}, {"by": "min", "over": ["64", "96"]}):
        with pytest.raises(ValueError, match=r"suite taste has no part '96'; its parts: 64, 128"):
            value(asked(**config), PARTS)


def test_what_a_crash_left_half_kept_is_replaced(base: Start, tmp_path: Path) -> None:
    """A half-written checkpoint is not seen, and a step that is trained again is kept again."""
    model = checkpoint.load_model(base.path, base.facts)
    tokenizer = checkpoint.load_tokenizer(base.path, base.facts)
    (tmp_path / ".checkpoints.10").mkdir()
    for _ in range(2):
        keeping.keep(tmp_path, 10, model, tokenizer)
        keeping.keep(tmp_path, 9, model, tokenizer)
    assert not list(tmp_path.glob(".*"))
    (tmp_path / ".checkpoints.11").mkdir()
    assert keeping.hand_over(tmp_path, tmp_path / "output") == [9, 10]
    shutil.rmtree(tmp_path / "checkpoints")
    for each in keeping.kept(tmp_path / "output"):
        checkpoint.load_model(each.path, each.facts)


@given(st.dictionaries(st.text(), st.floats(0, 1), min_size=1))
def test_the_first_of_the_best_is_taken(values: dict[str, float]) -> None:
    best = best_of(values)
    names = list(values)
    assert all(values[best] > values[name] for name in names[: names.index(best)])
    assert all(values[best] >= each for each in values.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"of": []}, {"of": ["a", "a"]}, {"by": "min", "over": []}, {"by": "64", "over": ["64"]},
        {"by": "min", "over": ["64", "64"]}, {"by": ""},
    ],
)  # fmt: skip
def test_wrong_configs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        asked(**wrong)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("of: [long, base]", "of: [base]", "nothing to select from: base has one checkpoint"),
        ("of: [long, base]", "of: [notes]", "whose kind is data; that role is for adopt or"),
        ("max_new_tokens: 4", "may_steer: false", "which says may_steer: false; choose another"),
        ("keep_every: 2", "keep_every: 5", "keep_every 5 keeps nothing: steps is 5"),
    ],
)
def test_what_cannot_be_selected_is_told_by_the_plan(
    recipe: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        planned(write(tmp_path, recipe.read_text().replace(old, new)))


def test_a_run_too_short_to_keep_anything_leaves_no_choice(base: Start) -> None:
    """As where its data was exhausted early."""
    record = mock.Mock(facts=dict(base.facts))
    with pytest.raises(ValueError, match="nothing to select from: long"):
        select.candidates(["long"], {"from.long": Artifact(base.path, record)})
