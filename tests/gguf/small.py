"""A Llama of two layers in a GGUF file, written with llama.cpp's own library."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip


def vocabulary() -> Tokenizer:
    """Byte-level BPE with a few merges."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=288, special_tokens=list(CONTROL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(["the moss grew on the stone", "the fern grew 12 times"] * 9, trainer)
    return made


def llama(size: int, *, tied: bool = True) -> LlamaForCausalLM:
    """Random weights; four heads share two keys, so that a wrong order of rows shows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                rms_norm_eps=1e-5, tie_word_embeddings=tied, initializer_range=0.3,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            )
        )  # fmt: skip


def neighbours(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp has them: of each head, (i, i + half) side by side."""
    half = values.shape[0] // heads // 2
    order = [h * 2 * half + k * half + i for h in range(heads) for i in range(half) for k in (0, 1)]
    return values[order]


def tensors(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    """GGUF name -> values."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    found = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    if not model.config.tie_word_embeddings:
        found["output.weight"] = state["lm_head.weight"]
    for layer in range(2):
        for name, there in _LAYER.items():
            values = state[f"model.layers.{layer}.{there}.weight"]
            heads = {"attn_q": 4, "attn_k": 2}.get(name)
            found[f"blk.{layer}.{name}.weight"] = neighbours(values, heads) if heads else values
    return found


SETTINGS: Mapping[str, Any] = {
    "block_count": 2, "context_length": 128, "embedding_length": 64, "feed_forward_length": 96,
    "attention.head_count": 4, "attention.head_count_kv": 2, "rope.freq_base": 10000.0,
    "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": 16,
}  # fmt: skip


def write(
    path: Path, values: Mapping[str, np.ndarray], *, template: str = CHATML, cut: str = "gpt-2",
    quantised: bool = False, settings: Mapping[str, Any] = SETTINGS, architecture: str = "llama",
) -> None:  # fmt: skip
    """A GGUF file of these tensors; matrices whose rows are long enough are in Q8_0 if asked."""
    file = GGUFWriter(path, architecture)
    names = vocabulary()
    tokens = [names.id_to_token(index) for index in range(names.get_vocab_size())]
    for key, value in {**settings, "vocab_size": len(tokens)}.items():
        add = file.add_float32 if isinstance(value, float) else file.add_uint32
        add(f"llama.{key}", value)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(cut)
    file.add_token_list(tokens)
    file.add_token_types([3 if token in CONTROL else 1 for token in tokens])
    file.add_token_merges(_merges(names))
    for add, index in (
        (file.add_bos_token_id, 1), (file.add_eos_token_id, 2),
        (file.add_unk_token_id, 0), (file.add_pad_token_id, 2),
    ):  # fmt: skip
        add(index)
    file.add_chat_template(template)
    for name, each in values.items():
        if quantised and each.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            file.add_tensor(name, quantize(each, kind), raw_dtype=kind)
        else:
            file.add_tensor(name, np.ascontiguousarray(each))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _merges(names: Tokenizer) -> list[str]:
    import json

    merges = json.loads(names.to_str())["model"]["merges"]
    return [" ".join(each) if isinstance(each, list) else each for each in merges]
