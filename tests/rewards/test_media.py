"""JSON and msgpack say the same, and what is wrong is told by its place in the body."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from rewards.media import JSON, MSGPACK, Malformed, decode, encode, medium
from rewards.schema import Response, Verdict
from tests.rewards.service import Service

ITEM: dict[str, Any] = {"id": "i", "verifier": "v", "response": "r"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
VERDICTS = st.builds(
    Verdict, id=st.text(), verifier=st.text(), status=st.just("scored"), score=st.floats(0, 1),
    reason=st.none() | st.text(), parts=st.none() | st.dictionaries(st.text(), st.floats(0, 1)),
)  # fmt: skip


def problems(body: bytes, kind: str) -> list[tuple[list[Any], str]]:
    with pytest.raises(Malformed) as caught:
        decode(body, kind)
    return [(problem["loc"], problem["msg"]) for problem in caught.value.problems]


@given(st.fixed_dictionaries({
    "id": st.text(), "verifier": st.text(), "response": st.none() | st.text(),
    "answers": st.lists(st.text(), max_size=3), "gold": VALUES,
    "parameters": st.dictionaries(st.text(), VALUES, max_size=2),
}))  # fmt: skip
def test_an_item_is_the_same_in_both(row: dict[str, Any]) -> None:
    assert decode(msgpack.encode(row), MSGPACK) == decode(json.dumps(row).encode(), JSON)


@given(VALUES)
def test_a_body_is_wrong_in_both_or_in_none(row: Any) -> None:
    assert problems(msgpack.encode(row), MSGPACK) == problems(json.dumps(row).encode(), JSON)


@given(st.binary(max_size=30))
def test_no_bytes_are_more_than_malformed(body: bytes) -> None:
    for kind in (JSON, MSGPACK):
        assert all(place[0] == "body" for place, _ in problems(body, kind))


@given(st.lists(VERDICTS, max_size=3))
def test_verdicts_are_the_same_in_both(verdicts: list[Verdict]) -> None:
    in_json = Response.model_validate_json(encode(verdicts, JSON))
    in_msgpack = Response.model_validate(msgpack.decode(encode(verdicts, MSGPACK)))
    assert in_json == in_msgpack == Response(verdicts=verdicts)


CHECK = {"verifier": "v"}


@pytest.mark.parametrize(
    ("row", "place", "says"),
    [
        ({"items": [ITEM, {**ITEM, "id": 7}]}, ["items", 1, "id"], "valid string"),
        ({"items": [{**ITEM, "answers": ["a", 1]}]}, ["items", 0, "answers", 1], "valid string"),
        ({"items": {}}, ["items"], "valid list"),
        ({"items": [3]}, ["items", 0], "valid dictionary"),
        ({"id": "i", "response": "r"}, ["verifier"], "required"),
        ({**ITEM, "item": 1}, ["item"], "Extra inputs"),
        ({**ITEM, "gold": {"list": [float("inf")]}}, ["gold", "list", 0], "finite number"),
        ({**CHECK, "id": "i", "checks": [], "response": "r"}, ["checks"], "at least 1"),
        ({"id": "i", "response": "r", "checks": [CHECK, CHECK]}, ["checks"], "each verifier once"),
        ({"id": "i", "response": "r", "checks": [{**CHECK, "weight": 0}]},
         ["checks", 0, "weight"], "greater than 0"),
        ({"id": "i", "response": "r", "checks": [CHECK], "combine": "max"}, ["combine"], "'mean'"),
        ({"items": [ITEM, {**ITEM, "gold": 1}]}, ["items"], "differ but have one id"),
        ([], [], "valid dictionary"),
    ],
)  # fmt: skip
def test_a_problem_is_told_by_its_place(row: Any, place: list[Any], says: str) -> None:
    found = problems(msgpack.encode(row), MSGPACK)
    assert any(at == ["body", *place] and says in text for at, text in found), found


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, float("nan"), {"a": [b""]}])
def test_what_json_cannot_say_is_refused_in_msgpack(value: Any) -> None:
    assert problems(msgpack.encode({**ITEM, "gold": value}), MSGPACK)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deep_nesting_is_malformed(depth: int) -> None:
    nested = b'{"id":"i","verifier":"v","response":"","gold":' + b"[" * depth + b"]" * depth + b"}"
    assert problems(nested, JSON)
    assert problems(b"\x91" * depth + b"\xc0", MSGPACK)


def test_one_id_may_ask_several_verifiers() -> None:
    rows = [ITEM, {**ITEM, "verifier": "w"}, ITEM, {"id": "i", "response": "r", "checks": [CHECK]}]
    assert len(decode(json.dumps({"items": rows}).encode(), JSON)) == 4


@pytest.mark.parametrize(
    ("name", "kind"),
    [("", JSON), ("application/json; charset=utf-8", JSON), ("Application/MsgPack", MSGPACK),
     ("application/x-msgpack", MSGPACK), ("text/plain", None), ("application/x-json", None)],
)  # fmt: skip
def test_media_are_named(name: str, kind: str | None) -> None:
    assert medium(name) == kind


def test_the_service_speaks_both(service: Service) -> None:
    """A reply is in the medium of its request, unless another is asked for."""
    row = {"id": "i", "verifier": "answer", "answers": ["4"], "gold": ["4"]}
    in_msgpack, in_json = msgpack.encode(row), json.dumps(row).encode()
    replies = [
        service.exchange("POST", "/v1/score", in_json),
        service.exchange("POST", "/v1/score", in_json, accept=MSGPACK),
        service.exchange("POST", "/v1/score", in_msgpack, content_type=MSGPACK),
        service.exchange("POST", "/v1/score", in_msgpack, content_type=MSGPACK, accept=JSON),
    ]
    assert [reply.headers["content-type"] for reply in replies] == [JSON, MSGPACK, MSGPACK, JSON]
    read = [json.loads, msgpack.decode, msgpack.decode, json.loads]
    contents = [decode(reply.body) for decode, reply in zip(read, replies, strict=True)]
    assert contents[0]["verdicts"][0]["score"] == 1.0
    assert all(content == contents[0] for content in contents)
