"""A server that renders or ends otherwise than training is caught, and the way is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.data.chat import ChatFormat
from posttrain.equivalence.rendering import CONVERSATIONS, conversations, load_tokenizer
from posttrain.equivalence.served import served_faults
from posttrain.release.endpoint import Endpoint, Gone
from tests.evaluation.tiny_model import chat_format
from tests.release.conftest import Served
from tests.release.fake import MODEL


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.end()


def faults(served: Served, folder: Path, fault: str) -> list[str]:
    return list(served_faults(folder, served.probe(fault).endpoint))


def test_a_server_that_renders_as_training_has_no_faults(served: Served, own_head: Path) -> None:
    assert faults(served, own_head, "") == []


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("begin twice", "conversation 1: the server renders 2 times the token that begins a text"),
        ("begin twice", "a generation renders 2 times the token that begins a text, training 1"),
        ("begin added to rendered text", "a completion renders 2 times the token that begins"),
        ("another template", "the server's prompt renders other tokens than training, from"),
        ("generated from other ids", "a generation renders 0 times the token that begins a text"),
        ("tools not shown", "conversation 6: the server renders other tokens than training"),
        ("thinks unasked", None),
        ("history left open", "conversation 2: the server renders other tokens than training"),
        ("end marker does not end", "the server does not end at <|assistant_end|> (11)"),
        ("end of text does not end", "the server does not end at </s> (2)"),
        ("any model is served", None),
    ],
)
def test_what_a_server_does_otherwise_is_named(
    fault: str, told: str | None, served: Served, own_head: Path
) -> None:
    found = "\n".join(faults(served, own_head, fault))
    assert found == "" if told is None else told in found


def test_what_is_refused_is_not_taken_for_equal(served: Served, own_head: Path) -> None:
    endpoint = Endpoint(served.probe().endpoint.url, "another")
    found = list(served_faults(own_head, endpoint))
    assert "conversation 1: a generation: /chat/completions: status 404" in "\n".join(found)
    assert any("whether the server ends at" in fault for fault in found)


def test_a_server_that_is_gone_is_told(own_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posttrain.release.endpoint._BEFORE_GONE", 0.01)
    with pytest.raises(Gone):
        list(served_faults(own_head, Endpoint("http://127.0.0.1:9/v1", MODEL)))


def test_conversations_with_calls_are_left_out_where_there_is_no_token_for_them(
    own_head: Path,
) -> None:
    chat = ChatFormat.from_tokenizer(load_tokenizer(own_head))
    assert conversations(chat) == CONVERSATIONS
    plain = chat_format()
    without = {name: n for name, n in plain.control.items() if "tools" not in name}
    other = type(plain)(plain.tokenizer, without)
    assert conversations(other) == [row for row in CONVERSATIONS if not row["tools"]]
