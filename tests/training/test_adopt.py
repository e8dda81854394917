import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from posttrain.cli import app
from posttrain.stages.adopt import digest_of
from posttrain.training.sft import Start
from tests.core.executed import executed, planned

RECIPE = """
recipe: adopted
seed: 3
backend: cpu
data:
  talk: {{generate: tiny.dialogues, rows: 20}}
stages:
  base: {{kind: adopt, path: made/model{digest}}}
  sft:
    kind: sft
    from: base
    data: talk
    steps: 1
    batch: 4
    optimizer: {{adamw: {{lr: 1e-3}}}}
"""


@pytest.fixture
def made(base: Start, tmp_path: Path) -> Path:
    """A Hugging Face folder with things in it that are no part of a checkpoint."""
    folder = tmp_path / "made/model"
    shutil.copytree(base.path / "model", folder)
    (folder / "README.md").write_text("a model")
    (folder / "logs").mkdir()
    return folder


def recipe(folder: Path, digest: str | None) -> Path:
    path = folder / "r.yaml"
    path.write_text(RECIPE.format(digest=f", digest: {digest}" if digest else ""))
    return path


def test_a_checkpoint_is_taken_over_byte_by_byte_and_trained(
    base: Start, made: Path, tmp_path: Path
) -> None:
    done = executed(recipe(tmp_path, digest_of(made)))
    adopted = done["base"]
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (adopted.path / "model" / name).read_bytes() == (made / name).read_bytes()
    assert adopted.record.facts["weights_sha256"] == base.facts["weights_sha256"]
    assert adopted.record.facts["rope"] == base.facts["rope"]
    assert done["sft"].record.facts["weights_sha256"] != base.facts["weights_sha256"]


def test_what_has_no_digest_is_planned_and_not_run(made: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, None)
    assert planned(path).nodes["base"].state == "blocked"
    with pytest.raises(ValueError, match=r"r\.yaml:8: made/model has no digest.*posttrain adopt"):
        planned(path).check()


def test_the_command_prints_the_lines_of_a_recipe(made: Path) -> None:
    told = CliRunner().invoke(app, ["adopt", str(made)])
    assert told.exit_code == 0
    lines = yaml.safe_load(told.output)["stages"]["base"]
    assert lines == {"kind": "adopt", "path": str(made), "digest": digest_of(made)}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_changed_refuses(made: Path, tmp_path: Path, name: str) -> None:
    stated = digest_of(made)
    (made / name).write_bytes((made / name).read_bytes() + b" ")
    with pytest.raises(ValueError, match=r"made/model is not what was stated: its digest is "):
        executed(recipe(tmp_path, stated))


def test_what_is_no_part_of_a_checkpoint_has_no_say(made: Path) -> None:
    before = digest_of(made)
    (made / "README.md").unlink()
    assert digest_of(made) == before


def test_pickled_weights_are_never_read(made: Path) -> None:
    (made / "model.safetensors").rename(made / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"no weights .*; pickled weights run code"):
        digest_of(made)


def test_a_truncated_shard_is_one_line(made: Path, tmp_path: Path) -> None:
    whole = (made / "model.safetensors").read_bytes()
    (made / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="the checkpoint cannot be loaded: "):
        executed(recipe(tmp_path, digest_of(made)))
