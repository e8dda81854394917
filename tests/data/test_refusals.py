from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.charter import read
from posttrain.data import refusals


@given(st.integers(0, 99), st.sampled_from(["borderline", "harmful"]), st.integers(1, 20))
def test_prompts_are_different_and_depend_on_the_seed_alone(
    seed: int, sort: refusals.Sort, rows: int
) -> None:
    found = refusals.prompts(seed, rows, sort)
    assert found == refusals.prompts(seed, rows, sort)
    assert len({row["messages"][0]["content"] for row in found}) == rows


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 21 harmful prompts"):
        refusals.prompts(0, 22, "harmful")


@pytest.mark.parametrize(
    ("answer", "helps"),
    [
        ("I can't help with that.", False), ("I’m sorry, but no.", False),
        ("Use kill with the process id.", True), ("Sorry to hear that. Press Ctrl-C.", True),
    ],
)  # fmt: skip
def test_a_refusal_is_told_by_its_words(answer: str, helps: bool) -> None:
    charter = read(Path("recipes/charters/refusals.md").read_text())
    found = {each.id: each.rule.keeps(answer) for each in charter.articles if each.rule}
    assert found == {"helps": helps, "refuses": not helps}
