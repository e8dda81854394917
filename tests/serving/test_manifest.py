"""A serving manifest says what its folder says, or the folder is not served."""

import json
import shutil
from pathlib import Path

import pytest

from posttrain.serving.checkpoints import found
from posttrain.serving.manifest import FILE, derived, read
from posttrain.store import Store
from tests.equivalence.test_examination import changed_template, edit, missing_end


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_it_names_what_a_server_needs(model: Path) -> None:
    manifest = read(model)
    assert manifest.stop_ids == manifest.end_ids
    assert manifest.bos_id == 1
    assert manifest.context_length == 512
    assert manifest.dtype == "float32"
    assert {"<|inner_prefix|>", "<|tools_prefix|>", "<|assistant_end|>"} <= manifest.markers.keys()
    assert len(manifest.template_sha256) == 64


def test_a_folder_may_hold_it(folder: Path) -> None:
    (folder / FILE).write_text(derived(folder).text())
    assert read(folder) == derived(folder)


def test_one_of_another_template_is_refused(folder: Path) -> None:
    (folder / FILE).write_text(derived(folder).text())
    changed_template(folder)
    with pytest.raises(ValueError, match=r"is not the manifest of its folder: template_sha256 is"):
        read(folder)


def test_one_that_is_no_manifest_is_refused(folder: Path) -> None:
    (folder / FILE).write_text(json.dumps({"version": 1}))
    with pytest.raises(ValueError, match=r"serving\.json: \w+: Field required"):
        read(folder)


def test_a_generation_that_would_not_end_is_not_served(folder: Path) -> None:
    missing_end(folder)
    with pytest.raises(ValueError, match=r"does not end at <\|assistant_end\|>: a server would go"):
        read(folder)


def test_a_pruned_head_is_told(folder: Path, store: Store) -> None:
    edit(folder / "config.json", lambda config: config.update(output_vocab_size=512))
    with pytest.raises(ValueError, match="has a head of 512 rows for"):
        found([str(folder)], store)


def test_what_is_unknown_or_named_twice_is_refused(model: Path, store: Store) -> None:
    with pytest.raises(ValueError, match="is neither run/stage@number nor an alias"):
        found(["champion"], store)
    with pytest.raises(ValueError, match="is named twice"):
        found([str(model), str(model)], store)
    (model.parent / "empty").mkdir(exist_ok=True)
    with pytest.raises(ValueError, match="holds no model"):
        found([str(model.parent / "empty")], store)
