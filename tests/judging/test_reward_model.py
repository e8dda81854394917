"""A reward model made at random, as `kind: score` uses it: against plain passes, one at a time."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForSequenceClassification

from posttrain.data.turn import AssistantTurn
from posttrain.judging import completions
from posttrain.judging.reward_model import RewardModel
from posttrain.stages import adopt, score
from posttrain.store import Artifact
from tests.evaluation.tiny_model import chat_format
from tests.judging.test_stages import artifact, run

TEMPLATE = (
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no role ' + m.role) }}{% endif %}"
    "[{{ m.role }}] {{ m.content }}\n{% endfor %}"
)
TEXTS = ["yes", "it is", "no " * 9, "so it is then, as far as anybody knows", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights with one output, whose end token is its padding too."""
    root = tmp_path_factory.mktemp("reward")
    tokenizer = chat_format().tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(root)
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=128, num_labels=1,
        pad_token_id=tokenizer.eos_token_id, initializer_range=0.4,
    )  # fmt: skip
    LlamaForSequenceClassification(config).to(torch.bfloat16).save_pretrained(root)
    return root


def said(*texts: str) -> tuple[list[dict[str, Any]], list[AssistantTurn]]:
    rows = [
        {"messages": [{"role": "user", "content": f"question {place}"}]}
        for place in range(len(texts))
    ]
    turns = [AssistantTurn("thinking", (), text, complete=True) for text in texts]
    return rows, turns


def plain(folder: Path, row: dict[str, Any], text: str) -> float:
    """The output for one text, without batch or padding, in float32."""
    model = LlamaForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = chat_format().tokenizer
    whole = f"[user] {row['messages'][0]['content']}\n[assistant] {text}\n"
    ids = tokenizer.encode(whole, add_special_tokens=False)
    with torch.no_grad():
        return float(model(torch.tensor([ids])).logits[0, 0])


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_score_is_the_models_output_for_prompt_and_completion(folder: Path, batch: int) -> None:
    rows, turns = said(*TEXTS)
    found = RewardModel.load(folder, batch, "cpu").opinions(rows, turns)
    wanted = [plain(folder, row, text) for row, text in zip(rows, TEXTS, strict=True)]
    assert [each.score for each in found] == pytest.approx(wanted, abs=1e-5)
    assert len({round(value, 3) for value in wanted}) == 5


def test_what_has_no_score_says_why(folder: Path) -> None:
    rows, turns = said("yes", "no " * 200, "no")
    rows[2]["messages"][0]["role"] = "tool"
    found = RewardModel.load(folder, 8, "cpu").opinions(rows, turns)
    assert [each.score is None for each in found] == [False, True, True]
    assert "too_long" in found[1].fault
    assert found[2].fault == "failed (unrenderable): no role tool"


def test_an_output_that_is_no_number_is_a_fault(folder: Path) -> None:
    model = RewardModel.load(folder, 8, "cpu")
    model._model.score.weight.data.fill_(float("inf"))
    [found] = model.opinions(*said("yes"))
    assert (found.score, found.fault[:12]) == (None, "failed (nan)")


def _changed(folder: Path, root: Path, change: Any) -> Path:
    """A copy of the folder after `change` of its config and weights."""
    root.mkdir()
    for path in folder.iterdir():
        (root / path.name).write_bytes(path.read_bytes())
    config, weights = (
        json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors"),
    )  # fmt: skip
    change(root, config, weights)
    (root / "config.json").write_text(json.dumps(config))
    save_file(weights, root / "model.safetensors", {"format": "pt"})
    return root


def _two_outputs(root: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    config |= {"num_labels": 2, "id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}
    weights["score.weight"] = weights["score.weight"].repeat(2, 1)


def _no_head(root: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    del weights["score.weight"]


def _no_template(root: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    (root / "chat_template.jinja").unlink()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_two_outputs, "has 2 outputs; a reward is one"),
        (_no_head, "has no weights for score.weight: it is no reward model"),
        (_no_template, "has no chat template"),
    ],
)
def test_a_folder_that_is_no_reward_model_is_refused(
    folder: Path, tmp_path: Path, change: Any, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        RewardModel.load(_changed(folder, tmp_path / "other", change), 8, "cpu")


@pytest.fixture
def drawn(tmp_path: Path) -> Artifact:
    """Completions, as a stage generated them."""
    lines = [
        completions.line(place, 0, row, [7], turn)
        for place, (row, turn) in enumerate(zip(*said(*TEXTS), strict=True))
    ]
    (tmp_path / "drawn").mkdir()
    completions.write(tmp_path / "drawn" / completions.COMPLETIONS, lines)
    return artifact(tmp_path / "drawn")


def test_completions_are_scored_by_the_model_that_was_stated(
    folder: Path, drawn: Artifact, tmp_path: Path
) -> None:
    asked = {"path": str(folder), "digest": adopt.digest_of(folder)}
    config = score.Config.model_validate({"completions": "drawn", "reward": asked})
    assert (config.services(), config.inputs()) == ((), {"completions": "drawn"})
    found, metrics = run("score", config.placed("x", tmp_path / "recipe.yaml"),
                         {"completions": drawn}, tmp_path)  # fmt: skip
    lines = list(completions.read(found.path / completions.SCORES))
    rows, _ = said(*TEXTS)
    assert [line["score"] for line in lines] == pytest.approx(
        [plain(folder, *each) for each in zip(rows, TEXTS, strict=True)], abs=1e-5
    )
    assert metrics["unjudged"] == 0
    assert found.record.facts["judge"]["reward_model"] == asked["digest"]
    other = score.Config.model_validate(
        {"completions": "drawn", "reward": asked | {"digest": "0" * 64}}
    )
    with pytest.raises(ValueError, match="is not what was stated: its digest is"):
        run("score", other.placed("x", tmp_path / "recipe.yaml"), {"completions": drawn},
            tmp_path / "other")  # fmt: skip


def test_a_reward_model_without_a_digest_blocks_its_plan(folder: Path, tmp_path: Path) -> None:
    config = score.Config.model_validate({"completions": "drawn", "reward": {"path": "rm"}})
    with pytest.raises(ValueError, match=r"rm has no digest.* posttrain adopt .*rm"):
        config.placed("x", tmp_path / "recipe.yaml").digests()


def test_one_of_judge_and_reward_model_scores(folder: Path) -> None:
    asked = {"path": str(folder), "digest": "0" * 64}
    for wrong in ({}, {"judge": {"verifier": "judge"}, "reward": asked}):
        with pytest.raises(ValueError, match="name one of them"):
            score.Config.model_validate({"completions": "drawn", **wrong})
