import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.generators import GENERATORS
from posttrain.data.pairs import SIDES, read_pairs, render_pair, unusable
from tests.evaluation.tiny_model import chat_format

LONGEST = 200


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return chat_format()


def pair(chosen: str = "Yes.", rejected: str = "No.", asked: str = "Is it?") -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": asked}],
        "chosen": {"role": "assistant", "content": chosen},
        "rejected": {"role": "assistant", "content": rejected},
    }


def write(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@given(index=st.integers(0, 39))
def test_only_the_last_turn_is_a_target_and_the_prompt_is_shared(index: int) -> None:
    row, chat = ROWS[index], CHAT
    prompt = chat.render(row, add_generation_prompt=True).ids  # type: ignore[arg-type]
    for name, side in zip(SIDES, render_pair(chat, row).sides, strict=True):
        whole = {**row, "messages": [*row["messages"], row[name]]}
        assert side.ids == chat.render(whole).ids  # type: ignore[arg-type]
        assert side.ids[: len(prompt)] == prompt
        assert side.mask == [0] * len(prompt) + [1] * (len(side.ids) - len(prompt))


CHAT = chat_format()
ROWS = tiny.pairs(3, 40)


def test_earlier_turns_of_the_assistant_are_context(chat: ChatFormat) -> None:
    first = [*pair()["messages"], {"role": "assistant", "content": "Is what?"}]
    row = pair() | {"messages": [*first, {"role": "user", "content": "That."}]}
    side = render_pair(chat, row).chosen
    assert chat.parse(side.ids[side.mask.index(1) :]).content == "Yes."
    assert sum(side.mask) == len(chat.encode("Yes.")) + 1


def test_a_turn_may_be_given_as_a_list_of_messages(chat: ChatFormat) -> None:
    listed = {side: [pair()[side]] for side in SIDES}
    assert render_pair(chat, pair() | listed) == render_pair(chat, pair())


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (pair("Yes.", "Yes."), "identical"),
        (pair("Yes.", ""), "empty"),
        (pair("", "No."), "empty"),
        (pair("", ""), "empty"),
        (pair("Yes. " * LONGEST), "too_long"),
        (pair(rejected="No. " * LONGEST), "too_long"),
        (pair(asked="Why? " * LONGEST), "too_long"),
        (pair(), None),
    ],
)
def test_what_cannot_be_trained_on_is_told(
    chat: ChatFormat, row: dict[str, Any], reason: str | None
) -> None:
    assert unusable(render_pair(chat, row), LONGEST) == reason


def test_unusable_pairs_are_refused_or_left_out_and_counted_but_never_shortened(
    chat: ChatFormat, tmp_path: Path
) -> None:
    rows = [pair(), pair("Yes.", "Yes."), pair("No.", "Yes."), pair("Yes. " * LONGEST)]
    path = write(tmp_path / "train.jsonl", *rows)
    with pytest.raises(ValueError, match=r"2 of 4 pairs .* row 2: it has two sides"):
        read_pairs(path, chat, LONGEST)
    with pytest.raises(ValueError, match=r"raise drop_at_most \(now 49"):
        read_pairs(path, chat, LONGEST, 0.49)
    found = read_pairs(path, chat, LONGEST, 0.5)
    assert found.rows == [0, 2]
    assert found.dropped == {"identical": 1, "too_long": 1}
    assert list(found.groups) == [render_pair(chat, rows[0]), render_pair(chat, rows[2])]


def test_a_bound_of_everything_still_needs_a_pair(chat: ChatFormat, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 of 1 pairs"):
        read_pairs(write(tmp_path / "train.jsonl", pair("a", "a")), chat, LONGEST, 1.0)
    with pytest.raises(ValueError, match="has no pairs"):
        read_pairs(write(tmp_path / "train.jsonl"), chat, LONGEST)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"chosen": None}, "as chosen"),
        ({"chosen": {"role": "user", "content": "x"}}, "not 'user'"),
        ({"rejected": {"role": "assistant", "content": "<|user_start|>"}}, "control tokens"),
    ],
)
def test_a_row_that_is_no_pair_is_named(
    chat: ChatFormat, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    path = write(tmp_path / "train.jsonl", pair(), pair() | changes)
    with pytest.raises(ValueError, match=f"pair 2 cannot be rendered: .*{told}"):
        read_pairs(path, chat, LONGEST)


def test_tiny_pairs_prefer_thinking_where_it_is_enabled() -> None:
    made = GENERATORS["tiny.pairs"]
    splits = made.make(7, made.parameters.model_validate({"rows": 60, "holdout": 20}))  # type: ignore[call-arg]
    for row in [*splits["train"], *splits["holdout"]]:
        thinks = {side: row[side]["thoughts"] is not None for side in SIDES}
        assert thinks == {"chosen": row["deliberation"], "rejected": not row["deliberation"]}
        assert row["chosen"]["tool_calls"] == row["rejected"]["tool_calls"]
    asked = {name: {row["messages"][0]["content"] for row in splits[name]} for name in splits}
    assert not asked["train"] & asked["holdout"]
