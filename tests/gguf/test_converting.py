"""GGUF to Hugging Face: exact, complete, and against the reader that transformers has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

pytest.importorskip("gguf", reason="install posttrain[smollm2]")

from posttrain.data.chat import ChatFormat
from posttrain.gguf.converting import convert
from posttrain.gguf.llama import Target
from tests.gguf import small

ROW: Any = {
    "messages": [
        {"role": "user", "content": "the fern"}, {"role": "assistant", "content": "grew 12"},
    ],
    "tools": [], "deliberation": False,
}  # fmt: skip


def quiet(done: int, of: int) -> None:
    assert 0 < done <= of


@pytest.fixture(scope="module")
def size() -> int:
    return small.vocabulary().get_vocab_size()


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_arrives_bit_equal(tied: bool, size: int, tmp_path: Path) -> None:
    model = small.llama(size, tied=tied)
    small.write(tmp_path / "m.gguf", small.tensors(model))
    told = convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype="auto")
    assert found.config.tie_word_embeddings is tied
    assert found.config.rms_norm_eps == 1e-5
    assert found.config.rope_parameters == {"rope_type": "default", "rope_theta": 10000.0}
    state = model.state_dict()
    assert found.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[name]) for name, value in found.state_dict().items())
    assert told["tensors"] == len(small.tensors(model))
    assert told["types"] == {"F32": told["tensors"]}


def test_quantised_weights_are_those_that_transformers_reads(size: int, tmp_path: Path) -> None:
    small.write(tmp_path / "m.gguf", small.tensors(small.llama(size)), quantised=True)
    told = convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    assert told["types"]["Q8_0"] == 15
    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype="auto").state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="m.gguf", dtype=torch.float32
    ).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@given(heads=st.sampled_from([1, 2, 3]), half=st.integers(1, 5), columns=st.integers(1, 3))
def test_the_rows_of_heads_are_put_back_in_order(heads: int, half: int, columns: int) -> None:
    rows = heads * half * 2
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    target = Target("q", (rows, columns), heads)
    assert np.array_equal(target.take(small.neighbours(values, heads)), values)


def test_the_tokenizer_is_that_of_the_file(size: int, tmp_path: Path) -> None:
    small.write(tmp_path / "m.gguf", small.tensors(small.llama(size)))
    convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    found, original = AutoTokenizer.from_pretrained(tmp_path / "hf"), small.vocabulary()
    for text in ("the moss  grew\n\n 12", "Zürich 漢字 🙂", "a<|im_end|>b", ""):
        assert found(text)["input_ids"] == original.encode(text).ids
        assert found.decode(found(text)["input_ids"]) == text
    assert (found.bos_token_id, found.eos_token_id, found.pad_token_id) == (1, 2, 2)


def test_digits_stand_alone_where_the_file_says_smollm(size: int, tmp_path: Path) -> None:
    small.write(tmp_path / "m.gguf", small.tensors(small.llama(size)), cut="smollm")
    convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    found = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert found.tokenize(" 12") == ["Ġ", "1", "2"]


def test_the_template_marks_what_the_assistant_says(size: int, tmp_path: Path) -> None:
    small.write(tmp_path / "m.gguf", small.tensors(small.llama(size)))
    convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    chat = ChatFormat.from_tokenizer(tokenizer)
    found = chat.render(ROW)
    text = tokenizer.decode(found.ids)
    assert text.startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nthe fern")
    said = [token for token, target in zip(found.ids, found.mask, strict=True) if target]
    assert tokenizer.decode(said) == "grew 12<|im_end|>"
    assert chat.spoken(said) == "grew 12"
    assert chat.parse(said).complete


def _without(name: str) -> Any:
    return {key: value for key, value in small.SETTINGS.items() if key != name}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"settings": {**small.SETTINGS, "rope.scaling.factor": 2.0}}, "not understood: rope.scal"),
        ({"settings": _without("rope.freq_base")}, "missing: rope.freq_base"),
        ({"settings": {**small.SETTINGS, "attention.head_count": 8}}, "has shape"),
        ({"architecture": "gemma"}, "architecture 'gemma' is not read"),
        ({"cut": "llama-bpe"}, "cut as 'llama-bpe' is not read"),
        ({"template": "{{ messages[0].content }}"}, "chat template is not ChatML"),
        ({"template": "{{ raise_exception('no') }}"}, "chat template fails: no"),
    ],
)
def test_what_is_not_understood_is_refused(
    changes: dict[str, Any], told: str, size: int, tmp_path: Path
) -> None:
    small.write(tmp_path / "m.gguf", small.tensors(small.llama(size)), **changes)
    with pytest.raises(ValueError, match=told):
        convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("odd", ["rope_freqs.weight", "blk.1.attn_q.weight"])
def test_no_tensor_is_left_and_none_is_made_up(odd: str, size: int, tmp_path: Path) -> None:
    values = small.tensors(small.llama(size))
    if values.pop(odd, None) is None:
        values[odd] = np.ones(8, dtype=np.float32)
    small.write(tmp_path / "m.gguf", values)
    with pytest.raises(ValueError, match=f"missing or not understood: {odd}"):
        convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no gguf file at all, whatever its name says"])
def test_a_damaged_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.gguf is no GGUF file, or is damaged"):
        convert(tmp_path / "m.gguf", tmp_path / "hf", quiet)
