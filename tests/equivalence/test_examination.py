"""Each corruption that a conversion is known to make is caught, and named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, processors

from posttrain.equivalence.changes import Changes
from posttrain.equivalence.examination import Check, examine
from posttrain.serving.manifest import FILE, derived

EXACT = Changes()


def checks(source: Path, target: Path, changes: Changes = EXACT) -> dict[str, Check]:
    return {check.name: check for check in examine(source, target, changes)}


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def retensor(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change tensors in whatever shards they are."""
    tensors: dict[str, torch.Tensor] = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= load_file(shard)
        shard.unlink()
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def dropped_scaling(folder: Path) -> None:
    plain = {"rope_type": "default", "rope_theta": 200.0}
    edit(folder / "config.json", lambda config: config.update(rope_parameters=plain))


def swapped_layers(folder: Path) -> None:
    def swap(tensors: dict[str, torch.Tensor]) -> None:
        names = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
        first, second = (tensors[name] for name in names)
        tensors |= dict(zip(names, (second, first), strict=True))

    retensor(folder, swap)


Q = "model.layers.1.self_attn.q_proj.weight"


def transposed(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors.update({Q: tensors[Q].T.contiguous()}))


def tied(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors.pop("lm_head.weight"))
    edit(folder / "config.json", lambda config: config.update(tie_word_embeddings=True))


def wrong_dtype(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors.update({n: t.bfloat16() for n, t in tensors.items()}))


def missing_end(folder: Path) -> None:
    edit(folder / "generation_config.json", lambda config: config.update(eos_token_id=2))


def changed_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("<|user_end|>", " <|user_end|>"))


def double_bos(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))


def truncated_shard(folder: Path) -> None:
    path = sorted(folder.glob("*.safetensors"))[-1]
    path.write_bytes(path.read_bytes()[:-100])


def lost_shard(folder: Path) -> None:
    sorted(folder.glob("*.safetensors"))[-1].unlink()


def misleading_index(folder: Path) -> None:
    def mislead(content: dict[str, Any]) -> None:
        names = content["weight_map"]
        first, second = sorted(set(names.values()))[:2]
        names[next(name for name, shard in names.items() if shard == first)] = second

    edit(folder / "model.safetensors.index.json", mislead)


def lost_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()


def brought_code(folder: Path) -> None:
    (folder / "modeling_other.py").write_text("")


def one_bit(folder: Path) -> None:
    def flip(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.norm.weight"].view(torch.int32)[0] ^= 1

    retensor(folder, flip)


def extra_tensor(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors.update({"visual.weight": torch.zeros(2)}))


def permuted_vocabulary(folder: Path) -> None:
    def swap(content: dict[str, Any]) -> None:
        vocabulary = content["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]

    edit(folder / "tokenizer.json", swap)


def shorter_context(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config.update(max_position_embeddings=64))


def other_heads(folder: Path) -> None:
    """The heads of one layer in another order, which changes nothing but rounding."""

    def permute(tensors: dict[str, torch.Tensor]) -> None:
        part = "model.layers.0.self_attn"
        for name in ("q_proj", "k_proj", "v_proj"):
            tensors[f"{part}.{name}.weight"] = tensors[f"{part}.{name}.weight"].roll(16, 0)
        tensors[f"{part}.o_proj.weight"] = tensors[f"{part}.o_proj.weight"].roll(16, 1)

    retensor(folder, permute)


def zeroed_row(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors["model.embed_tokens.weight"][700].zero_())


def scaled_norm(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors["model.norm.weight"].mul_(1 + 1e-3))


def rounded_tensor(folder: Path) -> None:
    retensor(folder, lambda tensors: tensors.update({Q: tensors[Q].bfloat16().float()}))


def swapped_rows(folder: Path) -> None:
    def swap(tensors: dict[str, torch.Tensor]) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name][[300, 301]] = tensors[name][[301, 300]]

    retensor(folder, swap)


def other_theta(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config["rope_parameters"].update(rope_theta=201.0))


def fewer_ends(folder: Path) -> None:
    path = folder / "generation_config.json"
    edit(path, lambda config: config.update(eos_token_id=config["eos_token_id"][:1]))


def other_sampling(folder: Path) -> None:
    edit(folder / "generation_config.json", lambda config: config.update(repetition_penalty=1.05))


def renamed_token(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<|tools_prefix|>", "<|tool_prefix|>"))


def blank_in_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text() + "\n")


def second_template(folder: Path) -> None:
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text("{{ messages }}")


def swapped_shards(folder: Path) -> None:
    first, second = sorted(folder.glob("*.safetensors"))[:2]
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)


def second_weights(folder: Path) -> None:
    torch.save({"model.norm.weight": torch.zeros(32)}, folder / "pytorch_model.bin")


def weights_twice(folder: Path) -> None:
    tensor = {"model.norm.weight": torch.zeros(32)}
    save_file(tensor, folder / "model-99999-of-99999.safetensors", {"format": "pt"})


def brought_folder(folder: Path) -> None:
    (folder / "original").mkdir()
    (folder / "original/consolidated.pth").write_bytes(b"")


@pytest.mark.parametrize(
    ("corrupt", "check", "told"),
    [
        (dropped_scaling, "rope", "RoPE of the model differs"),
        (dropped_scaling, "config", "rope_parameters.rope_type is 'default', was 'llama3'"),
        (swapped_layers, "weights", "it holds those of model.layers.1.mlp.up_proj.weight"),
        (transposed, "weights", f"{Q} is transposed"),
        (tied, "config", "tie_word_embeddings is True, was"),
        (tied, "weights", "lm_head.weight has other values"),
        (wrong_dtype, "weights", "is torch.bfloat16, must be torch.float32"),
        (missing_end, "end of sequence", "does not end at <|assistant_end|>"),
        (missing_end, "config", "eos_token_id is 2, was ["),
        (changed_template, "tokenizer and template", "template differs"),
        (changed_template, "rendering", "renders other tokens than training"),
        (double_bos, "rendering", "the server renders 2 times the token that begins a text"),
        (truncated_shard, "weights", "cannot be read, it is cut short or damaged"),
        (truncated_shard, "log-probabilities", "not examined"),
        (lost_shard, "weights", "is not whole: its index has"),
        (misleading_index, "weights", "is not whole: its index has"),
        (lost_template, "config", "chat_template.jinja is missing"),
        (brought_code, "config", "modeling_other.py is extra"),
        (one_bit, "weights", "model.norm.weight has other values"),
        (extra_tensor, "weights", "visual.weight is extra"),
        (permuted_vocabulary, "tokenizer and template", "tokenizer differs"),
        (shorter_context, "config", "max_position_embeddings is 64, was 512"),
        (other_heads, "weights", "model.layers.0.self_attn.k_proj.weight has other values"),
        (zeroed_row, "weights", "model.embed_tokens.weight has other values"),
        (scaled_norm, "weights", "model.norm.weight has other values"),
        (rounded_tensor, "weights", f"{Q} has other values"),
        (swapped_rows, "weights", "lm_head.weight has other values"),
        (other_theta, "rope", "RoPE of the model differs"),
        (fewer_ends, "end of sequence", "does not end at </s> (2)"),
        (other_sampling, "config", "repetition_penalty is 1.05, was None"),
        (renamed_token, "tokenizer and template", "tokenizer differs"),
        (blank_in_template, "tokenizer and template", "template differs"),
        (second_template, "config", "additional_chat_templates is extra"),
        (swapped_shards, "weights", "is not whole: its index has"),
        (second_weights, "config", "pytorch_model.bin is a second set of weights"),
        (weights_twice, "weights", "model.norm.weight is in"),
        (brought_folder, "config", "original is extra"),
    ],
)
def test_a_corruption_is_caught_and_named(
    corrupt: Callable[[Path], None], check: str, told: str, own_head: Path, tmp_path: Path
) -> None:
    target = Path(shutil.copytree(own_head, tmp_path / "target"))
    corrupt(target)
    found = checks(own_head, target)[check]
    assert not found.passed
    assert told in found.text()


def test_a_faithful_copy_passes_every_check(own_head: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(own_head, tmp_path / "target"))
    retensor(target, lambda tensors: None)  # In one shard now.
    found = checks(own_head, target)
    assert [check.text() for check in found.values() if not check.passed] == []
    assert "bit-equal" in found["log-probabilities"].figures
    assert len(found) == 8


def test_code_beside_the_weights_is_compared(own_head: Path, tmp_path: Path) -> None:
    folders = [Path(shutil.copytree(own_head, tmp_path / name)) for name in ("source", "target")]
    for folder, text in zip(folders, ("x = 1", "x = 2"), strict=True):
        (folder / "modeling_own.py").write_text(text)
        (folder / "assets").mkdir()
        (folder / "assets/note.txt").write_text("same")
    assert "modeling_own.py is not the file it was" in checks(*folders)["config"].text()
    (folders[1] / "modeling_own.py").write_text("x = 1")
    assert checks(*folders)["config"].passed
    (folders[1] / "assets/note.txt").write_text("other")
    assert checks(*folders)["config"].text() == "assets is not the file it was"


def test_a_manifest_or_card_may_lie_beside_a_model(own_head: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(own_head, tmp_path / "target"))
    (target / "README.md").write_text("a card")
    (target / FILE).write_text(derived(target).text())
    assert checks(own_head, target)["config"].passed
    edit(target / FILE, lambda manifest: manifest.update(stop_ids=[2]))
    assert "stop_ids is" in checks(own_head, target)["config"].text()


def adapted(folder: Path) -> None:
    """Put a low-rank update beside the weights, as PEFT names it."""
    generator = torch.Generator().manual_seed(1)
    part = f"base_model.model.{Q.removesuffix('.weight')}"
    update = {
        f"{part}.lora_A.weight": torch.randn(4, 32, generator=generator),
        f"{part}.lora_B.weight": torch.randn(32, 4, generator=generator) / 10,
    }
    save_file(update, folder / "adapter_model.safetensors", {"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 8}))


def test_a_dropped_adapter_is_caught(own_head: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(own_head, tmp_path / "source"))
    adapted(source)
    found = checks(source, own_head)
    assert f"{Q} has other values" in found["weights"].text()
    assert not found["log-probabilities"].passed


def test_an_adapter_of_other_weights_is_refused(own_head: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(own_head, tmp_path / "source"))
    adapted(source)
    path = source / "adapter_model.safetensors"
    save_file({n.replace("q_proj", "x_proj"): t for n, t in load_file(path).items()}, path)
    assert "belongs to no tensor" in checks(source, own_head)["weights"].text()


def test_rounding_passes_only_if_it_was_stated(own_head: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(own_head, tmp_path / "target"))
    wrong_dtype(target)
    edit(target / "config.json", lambda config: config.update(dtype="bfloat16"))
    assert not checks(own_head, target)["weights"].passed
    found = checks(own_head, target, Changes(dtype="bfloat16", most_kl=0.5))
    assert [check.text() for check in found.values() if not check.passed] == []
    strict = checks(own_head, target, Changes(dtype="bfloat16", most_kl=1e-9))
    assert "bound 1e-09" in strict["log-probabilities"].text()


def test_a_folder_that_is_nothing_fails_every_check(own_head: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert not any(check.passed for check in examine(own_head, tmp_path / "empty", EXACT))
