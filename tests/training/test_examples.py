from pathlib import Path

import pytest

from posttrain.data.chat import Rendered
from posttrain.training.examples import dialogues, documents, targets
from tests.training.conftest import World, read, write


def test_a_document_s_continuation_is_its_target(world: World) -> None:
    path = world.corpus / "train.jsonl"
    rows = read(path)
    for row, example in zip(rows, documents(path, world.tokenizer, 512), strict=True):
        kept = [index for index, target in zip(example.ids, example.mask, strict=True) if target]
        assert world.tokenizer.decode(kept) == row["continuation"] + "</s>"
        assert world.tokenizer.decode(example.ids) == f"<s>{row['prompt']}{row['continuation']}</s>"


def test_of_dialogues_only_the_assistant_is_a_target(world: World) -> None:
    path = world.documents / "train.jsonl"
    for row, example in zip(read(path), dialogues(path, world.tokenizer, 512), strict=True):
        kept = [index for index, target in zip(example.ids, example.mask, strict=True) if target]
        text = world.tokenizer.decode(kept)
        assert text.count("<|assistant_end|>") == len(row["messages"]) // 2
        assert "What is" not in text
        assert example.mask[0] == 0


def test_targets_are_counted() -> None:
    assert targets(Rendered([1, 2, 3, 4], [0, 1, 0, 1])) == 2


def test_a_row_longer_than_the_context_is_named(world: World) -> None:
    with pytest.raises(ValueError, match=r"row 1 of train\.jsonl .* the context 20; raise"):
        dialogues(world.dialogues / "train.jsonl", world.tokenizer, 20)


def test_a_row_without_a_target_is_named(world: World, tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "Hi"}], "tools": [], "deliberation": False}
    with pytest.raises(ValueError, match=r"row 1 of asks\.jsonl .* no target"):
        dialogues(write(tmp_path / "asks.jsonl", [row]), world.tokenizer, 512)


def test_an_empty_file_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no rows"):
        documents(write(tmp_path / "none.jsonl", []), world.tokenizer, 512)


def test_rows_tokenised_elsewhere_are_taken_as_they_are(world: World, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"tokens": [1, 9, 8], "mask": [0, 0, 1]}\n{"text": "ab"}\n')
    first, second = dialogues(path, world.tokenizer, 64)
    assert (first.ids, first.mask) == ([1, 9, 8], [0, 0, 1])
    assert second.mask == [0, *[1] * (len(second.ids) - 1)]
    path.write_text('{"tokens": [1, 99999], "mask": [0, 1]}\n')
    with pytest.raises(ValueError, match=r"tokens\[\d+\]: 99999 is none of the tokenizer's"):
        dialogues(path, world.tokenizer, 64)
