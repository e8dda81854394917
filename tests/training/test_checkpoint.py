import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from posttrain.training import checkpoint
from posttrain.training.checkpoint import TrainingState
from posttrain.training.sft import Start


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _other_theta(model: Path) -> None:
    _edit(model / "config.json", lambda config: config["rope_parameters"].update(rope_theta=201.0))


def _other_weight(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"][0] += 1e-6
    save_file(tensors, model / "model.safetensors", {"format": "pt"})


def _other_token(model: Path) -> None:
    def swap(content: dict[str, Any]) -> None:
        vocabulary = content["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]

    _edit(model / "tokenizer.json", swap)


def _other_template(model: Path) -> None:
    path = model / "chat_template.jinja"
    path.write_text(path.read_text() + " ")


def test_a_checkpoint_comes_back_as_it_was_saved(base: Start) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    assert checkpoint.weights_digest(model) == base.facts["weights_sha256"]
    tokenizer = checkpoint.load_tokenizer(base.path, base.facts)
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids(
        ["<|assistant_end|>", "</s>"]
    )


def test_saving_again_gives_the_same_facts(base: Start, tmp_path: Path) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    tokenizer = checkpoint.load_tokenizer(base.path, base.facts)
    facts = checkpoint.save_model(model, tokenizer, tmp_path / "model")
    assert facts == {name: base.facts[name] for name in facts}


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (_other_theta, "RoPE"), (_other_weight, "weights_sha256"),
        (_other_token, "tokenizer_sha256"), (_other_template, "template_sha256"),
    ],
)  # fmt: skip
def test_what_was_changed_is_refused_and_named(
    tamper: Callable[[Path], None], named: str, base: Start, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(base.path, copy)
    tamper(copy / "model")
    with pytest.raises(ValueError, match=named):
        checkpoint.load_model(copy, base.facts)


def _state(step: int) -> TrainingState:
    return TrainingState(step, {"w": torch.full((3,), float(step))}, {"s": 1}, torch.ones(2), [])


def test_a_state_comes_back_and_is_replaced(tmp_path: Path) -> None:
    assert checkpoint.load_state(tmp_path) is None
    for step in (1, 2):
        checkpoint.save_state(tmp_path, _state(step))
    found = checkpoint.load_state(tmp_path)
    assert found is not None
    assert found.step == 2
    assert torch.equal(found.model["w"], torch.full((3,), 2.0))


def test_a_crash_while_saving_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save_state(tmp_path, _state(1))

    def half(content: object, stream: Any) -> None:
        stream.write(b"PK half a file")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", half)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save_state(tmp_path, _state(2))
    found = checkpoint.load_state(tmp_path)
    assert found is not None
    assert found.step == 1
