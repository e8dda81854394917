"""Data in a recipe: frozen files, checks as nodes, manifests, and what a plan says of them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from posttrain.data import checks, indexed, manifest, tiny
from posttrain.forecast import forecasts, lines
from posttrain.store import Artifact
from tests.core.executed import executed, planned
from tests.core.runs import ended, write

RECIPE = """\
recipe: mine
seed: 1
backend: cpu
data:
  dialogues: {generate: tiny.dialogues, rows: 64}
  sums:      {generate: tiny.prompts, rows: 8, holdout: 12, thinking: 100%}
  talk:      {files: [talk.jsonl, more.jsonl], licence: CC-BY-4.0, owner: data team}
  licensed:  {check: licences, from: talk, allow: [CC-BY-4.0]}
  clean:
    check: decontamination
    from: licensed
    against: [sums.holdout]
    tokenizer: tokens
    most_removed: 20%
stages:
  tokens: {kind: tokenizer, data: [dialogues], vocabulary: 600}
"""
TRAINED = """\
  sft:
    {kind: sft, from: base, data: DATA, steps: 10, batch: 8, optimizer: {adamw: {lr: 1e-3}}}
  base:
    kind: pretrain
    model: {architecture: apertus, hidden: 32, layers: 1, heads: 2, feed_forward: 64,
            vocabulary: 600, context: 64}
    data: dialogues
    tokenizer: tokens
    steps: 5
    optimizer: {adamw: {lr: 1e-3}}
"""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    return [{**row, "id": f"{seed}-{n}"} for n, row in enumerate(tiny.dialogues(seed, count))]


def write_rows(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))


def contaminated() -> list[dict[str, Any]]:
    """Clean rows, and one that asks what a benchmark does."""
    [prompt] = tiny.prompts(1, 1, 1.0, holdout=True)
    asked = {key: prompt[key] for key in ("messages", "tools", "deliberation")}
    answered = [*asked["messages"], {"role": "assistant", "content": "so"}]
    return [*rows(5, 29), {**asked, "messages": answered, "id": "planted"}]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe with its files, frozen."""
    write_rows(tmp_path / "talk.jsonl", rows(3, 30))
    write_rows(tmp_path / "more.jsonl", contaminated())
    path = write(tmp_path, RECIPE)
    done = ended(tmp_path, "data", "freeze", str(path))
    assert done.code == 0, done.err
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """All artifacts of the recipe, with a folder of its own."""
    folder = tmp_path_factory.mktemp("done")
    write_rows(folder / "talk.jsonl", rows(3, 30))
    write_rows(folder / "more.jsonl", contaminated())
    path = write(folder, RECIPE)
    assert ended(folder, "data", "freeze", str(path)).code == 0
    return executed(path)


def test_files_become_a_frozen_artifact(done: dict[str, Artifact]) -> None:
    talk = done["talk"]
    written = [json.loads(line) for line in (talk.path / "train.jsonl").open()]
    assert written == rows(3, 30) + contaminated()
    found = manifest.read(talk.path)
    assert (found.licence, found.owner) == ("CC-BY-4.0", "data team")
    assert [shard.file for shard in found.sources["train"]] == ["talk.jsonl", "more.jsonl"]
    [shard] = found.splits["train"].shards
    assert talk.record.files["train.jsonl"] == shard.sha256
    assert found.splits["train"].rows == talk.record.metrics["rows.train"] == 60


def test_a_check_leaves_out_rows_and_tells_which(done: dict[str, Artifact]) -> None:
    clean = done["clean"]
    ids = [json.loads(line)["id"] for line in (clean.path / "train.jsonl").open()]
    report = json.loads((clean.path / "report.json").read_bytes())
    removed = report["datasets"]["licensed"]["removed"]
    assert "planted" not in ids
    assert len(ids) == 60 - removed
    assert clean.record.metrics["recall.promised"] == 1.0
    found = manifest.read(clean.path)
    assert found.licence == "CC-BY-4.0"
    assert found.splits["train"].rows == len(ids)
    assert found.splits["train"].tokens == clean.record.metrics["tokens.train"]
    assert found.tokenizer_sha256
    assert found.sources == manifest.read(done["talk"].path).sources


def test_a_check_is_keyed_by_data_benchmark_parameters_and_code(recipe: Path) -> None:
    before = {name: node.key for name, node in planned(recipe).nodes.items()}

    def changed(*changes: str) -> set[str]:
        after = planned(recipe, *changes).nodes
        return {name for name in before if before[name] != after[name].key}

    assert changed("data.sums.holdout=13") == {"sums", "clean"}
    assert changed("data.talk.owner=me") == {"talk", "licensed", "clean"}
    assert changed("data.clean.plants=90") == {"clean"}
    with mock.patch.object(checks, "code", return_value="other"):
        assert changed() == {"licensed", "clean"}


def test_other_splits_pass_a_check_unchanged(recipe: Path) -> None:
    text = RECIPE + "  also: {kind: check, check: duplicates, from: sums}\n"
    found = executed(write(recipe.parent, text))
    files = [(found[name].path / "holdout.jsonl").read_bytes() for name in ("sums", "also")]
    assert files[0] == files[1]


def test_data_that_a_check_refuses_makes_no_artifact_but_a_report(recipe: Path) -> None:
    with pytest.raises(ValueError, match=r"would remove \d of 60 rows .* \(report: ") as refused:
        executed(recipe, "data.clean.most_removed=0%")
    report = Path(str(refused.value).rpartition("report: ")[2].removesuffix(")"))
    assert json.loads(report.read_bytes())["refusals"]
    assert planned(recipe, "data.clean.most_removed=0%").nodes["clean"].cached is None
    with pytest.raises(ValueError, match="licences removed every row"):
        executed(recipe, "data.licensed.allow=[MIT]")


def test_planning_data_imports_no_library_that_reads_it(recipe: Path) -> None:
    heavy = "('torch', 'transformers', 'tokenizers', 'pyarrow', 'datasets', 'ray')"
    program = (
        f"import sys; sys.argv[1:] = ['plan', {str(recipe)!r}, '--store', 'none']\n"
        "from posttrain.cli import app\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(','.join(m for m in {heavy} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert "6 of 6 stages to run" in done.stdout


def test_files_must_be_frozen_first(recipe: Path) -> None:
    manifest.lock_of(recipe).unlink()
    line = f"{recipe}:7: the files of talk are not frozen yet; run: posttrain data freeze {recipe}"
    told = ended(recipe.parent, "plan", str(recipe))
    assert told.code == 0
    assert f"blocked: {line}" in " ".join(told.out.split())
    assert "next:" not in told.out
    told = ended(recipe.parent, "run", str(recipe))
    assert (told.code, told.err) == (2, f"error: {line} (E201)\n")
    assert planned(recipe).nodes["talk"].state == "blocked"


def test_a_changed_file_refuses_with_the_difference(recipe: Path) -> None:
    whole = (recipe.parent / "talk.jsonl").read_bytes()
    for content in (whole[: whole.rindex(b"\n", 0, -1) + 1], whole.replace(b"3-0", b"9-0", 1)):
        (recipe.parent / "talk.jsonl").write_bytes(content)
        with pytest.raises(ValueError, match=r"talk are not those frozen: changed talk\.jsonl "):
            executed(recipe)
    told = ended(recipe.parent, "data", "freeze", str(recipe))
    assert told.code == 2
    assert "talk is not what was frozen: changed talk.jsonl (sha256 " in told.err
    before = planned(recipe).nodes["talk"].key
    assert ended(recipe.parent, "data", "freeze", str(recipe), "--replace").code == 0
    assert planned(recipe).nodes["talk"].key != before
    assert executed(recipe)["talk"].record.metrics["rows.train"] == 60


def test_a_missing_file_is_named(recipe: Path) -> None:
    (recipe.parent / "more.jsonl").unlink()
    with pytest.raises(ValueError, match=r"talk: there is no .*/more\.jsonl"):
        executed(recipe)


def test_once_in_the_store_the_files_are_not_needed(recipe: Path) -> None:
    first = executed(recipe)["talk"].address
    (recipe.parent / "more.jsonl").unlink()
    assert executed(recipe)["talk"].address == first


def test_a_file_more_or_less_in_the_recipe_refuses(recipe: Path) -> None:
    for files, told in (
        ("[talk.jsonl]", r"missing more\.jsonl \(train\)"),
        ("[talk.jsonl, more.jsonl, x.jsonl]", r"extra x\.jsonl \(train\)"),
        ("{train: [talk.jsonl], holdout: [more.jsonl]}", r"missing more.*, extra more.*holdout"),
    ):
        with pytest.raises(ValueError, match=rf"r\.yaml:7: .*not those frozen: {told}.*--replace"):
            planned(recipe, f"data.talk.files={files}").check()


def test_a_damaged_lock_is_one_line(recipe: Path) -> None:
    manifest.lock_of(recipe).write_text("{")
    assert "r.frozen.json is damaged; restore it" in ended(recipe.parent, "plan", str(recipe)).err


def test_rows_that_cannot_be_used_are_told_and_nothing_is_frozen(recipe: Path) -> None:
    manifest.lock_of(recipe).unlink()
    bad = [json.dumps(row) for row in rows(3, 20)]
    bad[2], bad[4] = bad[2][:-9], '{"messages": [{"role": "teacher"}]}'
    (recipe.parent / "talk.jsonl").write_text("\n".join(bad))
    told = ended(recipe.parent, "data", "freeze", str(recipe))
    assert told.code == 2
    assert "talk.jsonl: row 3: is not JSON at column" in told.err
    assert "talk.jsonl: row 5: messages[0].role: unknown role 'teacher'" in told.err
    assert not manifest.lock_of(recipe).exists()
    (recipe.parent / "talk.jsonl").write_text("{}\n" * 40)
    assert "and 30 more rows" in ended(recipe.parent, "data", "freeze", str(recipe)).err


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{rows: 3}", "data.extra has none of generate, files, package, check"),
        ("{files: [a.jsonl], licence: MIT}", "data.extra.owner is missing"),
        ("{files: [], licence: MIT, owner: me}", "data.extra.files: needs at least 1"),
        ("{files: [a.txt], licence: MIT, owner: me}", "suffix '.txt' tells no format; state one"),
        ("{files: [a.jsonl, a.jsonl], licence: MIT, owner: me}", "a.jsonl is named twice"),
        ("{files: {test: [a.jsonl]}, licence: MIT, owner: me}", "data.extra.files.test"),
        ("{files: [a.jsonl], licence: MIT, owner: me, licens: x}", "did you mean 'licence'"),
        ("{check: spelling, from: talk}", "unknown check 'spelling'; known checks: decontam"),
        ("{check: pii}", "data.extra.from is missing"),
        ("{check: pii, from: talk, kind: [x]}", "unknown key in data.extra: 'kind'; did you mean"),
        ("{check: pii, from: talk, against: [sums.holdout]}", "pii has no use for `against`"),
        ("{check: lint, from: talk}", "check lint needs `tokenizer`"),
        ("{check: decontamination, from: talk, tokenizer: tokens}", "needs `against`"),
        ("{check: licences, from: talk, allow: [nonsense]}", "no SPDX licence: nonsense"),
        ("{check: pii, from: tolk}", "did you mean 'talk'"),
        ("{check: pii, from: tokens}", "whose kind is tokenizer; that role is for data or files"),
    ],
)
def test_a_wrong_entry_is_one_placed_line(recipe: Path, entry: str, message: str) -> None:
    text = RECIPE.replace("stages:", f"  extra: {entry}\nstages:")
    with pytest.raises(ValueError, match=r"r\.yaml:15: ") as fault:
        planned(write(recipe.parent, text))
    assert message in str(fault.value)
    assert len(str(fault.value).splitlines()) == 1


def test_checks_of_text_refuse_rows_of_tokens(recipe: Path) -> None:
    indexed.write(recipe.parent / "ids", [[[1, 9, 0, 1]]] * 3, np.dtype("<u2"))
    ids = "  ids: {files: [ids.bin], licence: CC-BY-4.0, owner: me, tokenizer: tokens}"
    hidden = "  hidden: {check: pii, from: ids}\n"
    path = write(recipe.parent, RECIPE.replace("stages:", f"{ids}\n{hidden}stages:"))
    assert ended(recipe.parent, "data", "freeze", str(path)).code == 0
    with pytest.raises(ValueError, match=r"row 1: tokens: check pii reads text"):
        executed(path)
    seen = executed(write(recipe.parent, path.read_text().replace(hidden, "")))["ids"]
    assert seen.record.metrics == {
        "rows.train": 3, "tokens.train": 6, "optimised_tokens.train": 3,
    }  # fmt: skip


def sft(data: str, recipe: Path) -> Path:
    return write(recipe.parent, RECIPE + TRAINED.replace("DATA", data))


def told(recipe: Path, *changes: str) -> list[str]:
    return list(lines(forecasts(planned(recipe, *changes))))


def test_a_plan_forecasts_from_declared_and_frozen_rows(recipe: Path) -> None:
    assert told(sft("dialogues", recipe)) == [
        "sft draws dialogues 100.0%: 80 rows, 1.25 epochs; exhausted after 1 epoch, in step 9: "
        "repeated"
    ]
    assert told(sft("talk", recipe), "stages.sft.steps=2") == [
        "sft draws talk 100.0%: 16 rows, 0.27 epochs"
    ]
    mixed = sft("{talk: 50%, dialogues: {share: 50%, epochs: 2}}", recipe)
    assert told(mixed) == [
        "sft: what it draws of its data is unknown: talk has uncounted tokens (a check with a "
        "`tokenizer` counts them)"
    ]
    by_rows = told(mixed, "stages.sft.shares_of=rows", "stages.sft.on_exhausted=reweight")
    assert [line.partition(";")[0] for line in by_rows] == [
        "sft draws talk 50.0%: 40 rows, 0.67 epochs",
        "sft draws dialogues 50.0%: 40 rows, 0.62 epochs",
    ]
    assert told(sft("clean", recipe))[0].endswith("its rows are not declared")


def test_a_plan_forecasts_from_tokens_that_were_counted(recipe: Path) -> None:
    found = executed(recipe)
    split = manifest.read(found["clean"].path).splits["train"]
    assert split.optimised_tokens
    [line] = told(sft("clean", recipe))
    assert line.startswith(f"sft draws clean 100.0%: 80 rows, {80 / split.rows:.2f} epochs")
    text = RECIPE.replace("stages:", "  fit: {check: lint, from: dialogues, tokenizer: tokens}\n"
                          "stages:")  # fmt: skip
    executed(write(recipe.parent, text))
    mixed = write(recipe.parent, text + TRAINED.replace("DATA", "{clean: 50%, fit: 50%}"))
    plan = ended(recipe.parent, "plan", str(mixed), "--json")
    sources = json.loads(plan.out)["forecasts"]["sft"]["sources"]
    assert [each["share"] for each in sources] == pytest.approx([0.5, 0.5])
    assert sum(each["rows"] for each in sources) == pytest.approx(80)


def test_show_and_lint_read_artifacts_and_files(done: dict[str, Artifact], tmp_path: Path) -> None:
    folder = done["talk"].path.parents[4]
    shown = ended(folder, "data", "show", "mine/clean@1")
    assert shown.code == 0, shown.err
    assert "licence CC-BY-4.0, owner data team" in shown.out
    assert "more.jsonl" in shown.out
    assert "check decontamination: licensed: " in shown.out
    page = tmp_path / "page.html"
    linted = ended(
        folder, "data", "lint", "mine/talk@1", str(folder / "talk.jsonl"),
        "--tokenizer", "mine/tokens@1", "--page", str(page),
    )  # fmt: skip
    assert linted.code == 0, linted.err
    assert "mine/talk@1: 60 rows, " in linted.out
    assert "talk.jsonl: 30 rows, " in linted.out
    assert page.read_text().count("<article>") == 20
    assert "name one, or an artifact" in ended(folder, "data", "show", "nothing").err


def test_lint_ends_with_2_if_rows_are_unfit(done: dict[str, Artifact], tmp_path: Path) -> None:
    folder = done["talk"].path.parents[4]
    broken = tmp_path / "talk.jsonl"
    broken.write_text('{"messages": [{"role": "user", "content": "<|user_end|>"}]}\n{"a": 1}\n')
    linted = ended(folder, "data", "lint", str(broken), "--tokenizer", "mine/tokens@1")
    assert linted.code == 2
    assert f"control_in_text  {broken}: row 1: messages[0].content" in linted.out
    assert f"broken  {broken}: row 2" in linted.out


def test_files_alone_are_frozen_into_a_manifest(done: dict[str, Artifact], tmp_path: Path) -> None:
    folder = done["talk"].path.parents[4]
    path, target = tmp_path / "talk.jsonl", tmp_path / "talk.json"
    shutil.copy(folder / "talk.jsonl", path)
    asked = ["--to", str(target), "--licence", "MIT", "--owner", "me"]
    counted = ["--tokenizer", str(done["tokens"].path)]
    first = ended(folder, "data", "freeze", str(path), *asked, *counted)
    assert first.code == 0, first.err
    found = manifest.read_file(target)
    assert found.splits["train"].rows == 30
    assert found.splits["train"].optimised_tokens
    assert str(path) in ended(folder, "data", "show", str(target)).out
    path.write_bytes(path.read_bytes() + path.read_bytes())
    again = ended(folder, "data", "freeze", str(path), *asked)
    assert (again.code, "changed" in again.err) == (2, True)
    assert ended(folder, "data", "freeze", str(path), *asked, "--replace").code == 0
    assert manifest.read_file(target).splits["train"].rows == 60
    assert "need --to MANIFEST" in ended(folder, "data", "freeze", str(path)).err
