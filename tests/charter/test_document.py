from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.charter import Charter, asking, lint, read
from rewards.rules import Rule

CHARTERS = Path("recipes/charters")

FRONT = '---\ncharter: house\nversion: "2"\n---\n# House\n\n'
RULE = '```rule\nends_with: ["Bye."]\nadvice: Say goodbye.\n```\n'


def charter(*articles: str) -> Charter:
    return read(FRONT + "\n".join(articles))


def test_reads_articles_in_order_with_their_rules() -> None:
    found = charter("## a. First\n\nBe brief.\n", f"## b. Second\n\nBe kind.\n\n{RULE}")
    assert [(each.id, each.title, each.text) for each in found.articles] == [
        ("a", "First", "Be brief."), ("b", "Second", "Be kind."),
    ]  # fmt: skip
    assert found.articles[0].rule is None
    assert found.articles[1].rule == Rule(ends_with=["Bye."], advice="Say goodbye.")


@given(st.integers(0, 200), st.sampled_from("abc \n"))
def test_the_digest_is_of_every_byte(at: int, letter: str) -> None:
    text = FRONT + "## a. First\n\nBe brief, be kind, be just.\n"
    at = len(FRONT) + 20 + at % 20
    other = text[:at] + letter + text[at + 1 :]
    assert (read(text).sha256 == read(other).sha256) == (text == other)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("## a. First\n", "line 1: a charter begins with"),
        ("---\ncharter: house\n---\n", "line 2: version: Field required"),
        ("---\ncharter: [\n---\n", "line 2: this is no YAML"),
        (FRONT + "## First\n", "line 7: an article's heading is"),
        (FRONT + f"## a. First\n{RULE}{RULE}", "line 7: article a has 2 rules"),
        (FRONT + "## a. First\n```rule\nadvice: x\n```\n", "line 7, rule: a rule states"),
        (FRONT + "## a. First\n```rule\nends: x\n```\n", "line 7, rule: "),
    ],
)
def test_what_is_no_charter_is_told_by_line(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="line") as fault:
        read(text)
    assert told in str(fault.value)


@pytest.mark.parametrize(
    ("articles", "told"),
    [
        ([], "there is no article; begin one with `## ID. Title`"),
        (["## a. One\n\nx\n", "## A. Two\n\ny\n"], "2 articles have the id 'a'"),
        (["## a. One\n\nx\n", "## b. one\n\ny\n"], "2 articles have the title 'one'"),
        (["## a. One\n\nx\n", "## b. Two\n\nx\n"], "2 articles have the text 'x'"),
        (["## a. One\n\n"], "article a says nothing"),
        (["## 2. One\n\nx\n", "## 1. Two\n\ny\n"], "the articles' numbers are out of order"),
    ],
)
def test_lint_tells_what_is_wrong_with_articles(articles: list[str], told: str) -> None:
    assert lint.articles(charter(*articles)) == [told]


def test_lint_holds_the_length_against_the_judges_context() -> None:
    found = charter("## a. One\n\n" + "word " * 300)
    assert lint.faults(found, 2000, 1000) == []
    assert lint.faults(found, 1000, 800, count=len) == [
        f"it has {len(found.text)} tokens; the judge's context leaves 200 for it"
    ]
    assert "by estimate" in lint.faults(found, 1000, 800)[0]


@pytest.mark.parametrize("path", sorted(CHARTERS.glob("*.md")), ids=lambda path: path.stem)
def test_the_charters_that_ship_are_sound(path: Path) -> None:
    found = read(path.read_text())
    assert lint.faults(found, 16384, 8192) == []
    assert found.name == path.stem


def test_the_example_has_eleven_articles() -> None:
    found = read((CHARTERS / "example.md").read_text())
    assert [each.id for each in found.articles] == [str(number) for number in range(1, 12)]


def test_articles_are_chosen_in_the_charters_order() -> None:
    found = charter("## a. One\n\nx\n", "## b. Two\n\ny\n")
    assert [each.id for each in found.chosen(["b", "a"])] == ["a", "b"]
    with pytest.raises(ValueError, match="charter house has no article 'c'; there are a, b"):
        found.chosen(["c"])


def test_every_request_names_the_charter_by_its_digest() -> None:
    found = charter(f"## a. One\n\nx\n\n{RULE}")
    named = {"name": "house", "sha256": found.sha256}
    assert asking.rules(found, None)["charter"] == named
    assert asking.reading(found, "Hello?") == {"charter": named, "prompt": "Hello?"}


def test_an_article_without_a_rule_cannot_be_judged_by_rules() -> None:
    with pytest.raises(ValueError, match="article a of charter house has no rule"):
        asking.rules(charter("## a. One\n\nx\n"), None)
