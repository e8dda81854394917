"""Trained tokenizers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.documents import render_document
from posttrain.data.tokenizer import row_texts, train_tokenizer

ROWS = tiny.corpus(0, 3000) + tiny.dialogues(0, 3000)
TOKENIZER = train_tokenizer((text for row in ROWS for text in row_texts(row)), 1024)
CHAT = ChatFormat.from_tokenizer(TOKENIZER)


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_survives_a_round_trip(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids, clean_up_tokenization_spaces=False) == text


def test_no_token_is_added() -> None:
    assert TOKENIZER.encode("a3 b4") == TOKENIZER.encode("a3 b4", add_special_tokens=False)


def test_what_the_format_repeats_and_items_are_one_token_each() -> None:
    call = '[{"display_answers": {"answers": ["'
    lines = ["Deliberation: enabled\n", "Deliberation: disabled\n", "Tool Capabilities:\n"]
    lines += ["// Show the final answers.\n", call, '"]}}]', " b4", "12"]
    lines += ["type display_answers = (_: {\nanswers: string[]\n}) => any;"]
    assert {line: len(CHAT.encode(line)) for line in lines} == dict.fromkeys(lines, 1)


def test_saving_keeps_ids_and_template(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == TOKENIZER.get_vocab()
    assert loaded.chat_template == TOKENIZER.chat_template
    assert (loaded.bos_token, loaded.eos_token, loaded.pad_token) == ("<s>", "</s>", "<pad>")
    row = ROWS[-1]
    reloaded = ChatFormat.from_tokenizer(loaded)
    assert reloaded.render(row) == CHAT.render(row)  # type: ignore[arg-type]


def test_training_repeats() -> None:
    texts = [text for row in ROWS[:500] for text in row_texts(row)]
    vocabularies = [train_tokenizer(iter(texts), 400).get_vocab() for _ in range(2)]
    assert vocabularies[0] == vocabularies[1]
    assert len(vocabularies[0]) == 400


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="below 274, the minimum"):
        train_tokenizer(["a"], 273)


def test_a_document_is_learned_from_its_continuation_on() -> None:
    rendered = render_document(CHAT, {"prompt": "a3 b4 sum:", "continuation": " a03 b07"})
    assert TOKENIZER.decode(rendered.ids) == "<s>a3 b4 sum: a03 b07</s>"
    targets = [token for token, target in zip(rendered.ids, rendered.mask, strict=True) if target]
    assert TOKENIZER.decode(targets) == " a03 b07</s>"
