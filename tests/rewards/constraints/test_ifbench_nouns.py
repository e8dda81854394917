"""What the IFBench rules stand on: nesting, tables, emoji, syllables, verbs, spelling, places."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.verifiers.constraints.ifbench.emoji import begins_with_emoji, ends_with_emoji
from rewards.verifiers.constraints.ifbench.geography import AFRICA, african_state
from rewards.verifiers.constraints.ifbench.nesting import bracket_depth, quote_depth
from rewards.verifiers.constraints.ifbench.spelling import closing_mark, initial, unfenced
from rewards.verifiers.constraints.ifbench.syllables import parities, syllables
from rewards.verifiers.constraints.ifbench.table import rows
from rewards.verifiers.constraints.ifbench.verbs import starts_with_verb


@given(st.lists(st.sampled_from(["()", "[]", "{}"]), max_size=20))
def test_nested_brackets_are_as_deep_as_they_are_many(pairs: list[str]) -> None:
    text = "a".join(pair[0] for pair in pairs)
    text += "b".join(pair[1] for pair in reversed(pairs))
    assert bracket_depth(text) == len(pairs)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("(((((", 0),
        ("((a)", 1),
        ("(a)(b)", 1),
        ("(a [b) c]", 0),
        (") (a [b])", 2),
        ("((a) (b (c)))", 3),
    ],
)
def test_only_closed_brackets_count(text: str, depth: int) -> None:
    assert bracket_depth(text) == depth


@given(st.integers(0, 12), st.sampled_from(["\"'", "'\""]))
def test_nested_quotes_are_as_deep_as_they_are_many(depth: int, marks: str) -> None:
    inner = "go"
    for level in range(depth):
        inner = f"{marks[level % 2]}so {inner} on{marks[level % 2]}"
    assert quote_depth(f"He said {inner} then.") == depth


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("don't can't won't", 0),
        ("the dogs' and cats' food", 0),
        ("\"It's 'fine' now\"", 2),
        ("‘One “two ‘three’ four” five’", 3),
        ('"\'Tis late," he said, "\'tis late."', 1),
        ("6'2\" tall", 0),
        ('"One "two" three"', 1),
    ],
)
def test_apostrophes_are_no_quotes(text: str, depth: int) -> None:
    assert quote_depth(text) == depth


CELLS = st.text(alphabet='ab",\n\t é', max_size=6).map(lambda text: f"x{text}x")


@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=5))
def test_rows_are_those_that_were_written(table: list[list[str]]) -> None:
    for quoting in (csv.QUOTE_ALL, csv.QUOTE_MINIMAL):
        written = io.StringIO()
        csv.writer(written, quoting=quoting, lineterminator="\n").writerows(table)
        read = rows(written.getvalue(), ",")
        assert read is not None
        assert [[cell.content for cell in row] for row in read] == table
        assert quoting != csv.QUOTE_ALL or all(cell.quoted for row in read for cell in row)


@pytest.mark.parametrize("text", ['a,"b', 'a,b"c', '"a"b,c', 'a,"b" "c"'])
def test_a_misplaced_quotation_mark_makes_no_table(text: str) -> None:
    assert rows(text, ",") is None


@pytest.mark.parametrize("sign", ["🎉", "❤️", "👩‍🚀", "👍🏽", "🇨🇭", "1️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "☕", "™️"])
def test_emoji_of_any_length_are_seen_at_both_ends(sign: str) -> None:
    assert ends_with_emoji(f"We won! {sign}.)")
    assert begins_with_emoji(f"“{sign} We won!")
    assert not ends_with_emoji(f"{sign} We won.")
    assert not begins_with_emoji(f"We won. {sign}")


@pytest.mark.parametrize("sign", ["©", "™", ":)", "1", "#", "", "→"])
def test_text_signs_are_no_emoji(sign: str) -> None:
    assert not ends_with_emoji(f"We won {sign}")


SYLLABLES = {
    1: "dog walked makes trees sword lodge eyes league fixed cheese breathe",
    2: "table loyal maybe rhythm safely wanted foxes fireplace acre create opened someone",
    3: "area beautiful elephant carefully reaction radio quietly idea serious shareholder",
    4: "reality biology experience unfortunate information catastrophe",
    5: "association cooperation imagination opportunity simultaneous",
}


@pytest.mark.parametrize(
    ("word", "count"), [(word, n) for n, words in SYLLABLES.items() for word in words.split()]
)
def test_syllables_are_counted(word: str, count: int) -> None:
    assert syllables(word) == count


def test_parity_of_words_said_two_ways_is_open() -> None:
    assert parities("Fire") == {0, 1}
    assert parities("safety-net") == {1}
    assert parities("don’t") == {1}
    assert parities("café") == {0}
    assert parities("42") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "Go on.",
        "Stop!",
        "Plan the trip.",
        "Making tea takes time.",
        "Stopped by rain, we waited.",
        "Made of glass, it broke.",
        "Says who?",
        "Can you hear it?",
        "May we go?",
        "Isn’t it late?",
        "Let’s go.",
        "- Write it down",
    ],
)
def test_texts_that_start_with_a_verb(text: str) -> None:
    assert starts_with_verb(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "…",
        "Plans change.",
        "May flowers bloom.",
        "Spring came.",
        "Nothing helps.",
        "United we stand.",
        "Use of force",
        "To be or not",
        "Never mind.",
        "3 ways to go",
        "Книга",
    ],
)
def test_texts_that_do_not_start_with_a_verb(text: str) -> None:
    assert not starts_with_verb(text)


@given(st.text(alphabet="ab`\n ", max_size=20).filter(lambda text: "```" not in text))
def test_a_fence_round_a_text_is_taken_off(text: str) -> None:
    fenced = f"\n```csv\n{text}\n``` \n"
    if not text.endswith("`"):
        assert unfenced(fenced) == text.rstrip("\n")
    assert unfenced(f"Here: {fenced}") == f"Here: {fenced}"


def test_two_fences_stay() -> None:
    text = "```\na\n```\nand\n```\nb\n```"
    assert unfenced(text) == text


def test_the_ends_of_words_and_sentences() -> None:
    assert [initial(word) for word in ("“Élan”", "3rd", "–", "Жук")] == ["e", "3", "", "ж"]
    assert [closing_mark(it) for it in ("Go!”)", "*Why?*", "So…", "none", "a. b")] == [
        "!", "?", ".", "", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("The Gambia", "gambia"),
        ("Côte d’Ivoire", "cote d ivoire"),
        ("Eswatini (formerly Swaziland)", "eswatini"),
        ("Congo (Democratic Republic of the)", "congo democratic republic of the"),
        ("Congo (Brazzaville)", "congo"),
        ("Jordan", None),
    ],
)
def test_african_states_have_one_name_each(line: str, state: str | None) -> None:
    assert african_state(line) == state
    assert len(set(AFRICA.values())) == 55
