"""The chat format of a small trained tokenizer, and prompts in it."""

import os

import pytest

from posttrain.backends import profile

os.environ.update(profile("cpu").environment)  # before anything imports verl

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import row_texts, train_tokenizer


@pytest.fixture(scope="session")
def chat() -> ChatFormat:
    """The format over a tokenizer trained on a few dialogues."""
    rows = tiny.dialogues(0, 200)
    texts = [text for row in rows for text in row_texts(row)]
    return ChatFormat.from_tokenizer(train_tokenizer(texts, 600))
