"""Segmentation: known texts and their sentences, words and paragraphs, and what always holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints import text as texts

PROSE = st.text(st.sampled_from("ab Ai.!?…。\"”)'-*#1>\n\t ,_一é\u0301"), max_size=80)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rained. We left!", ["It rained.", "We left!"]),
        ("it rained. we left.", ["it rained.", "we left."]),
        ("Dr. Hill paid 3.14 euros, e.g. here.", ["Dr. Hill paid 3.14 euros, e.g. here."]),
        ("J. K. Hill left. He ran.", ["J. K. Hill left.", "He ran."]),
        ("See Fig. 2. He said no. We sat. We left.",
         ["See Fig. 2.", "He said no.", "We sat.", "We left."]),
        ("The U.S. Navy came at 5 p.m. today. It left the U.S. The end.",
         ["The U.S. Navy came at 5 p.m. today.", "It left the U.S.", "The end."]),
        ("Acme Inc. sells tea, etc. Then it shut.", ["Acme Inc. sells tea, etc.", "Then it shut."]),
        ('"Why?" he asked. "Go!" She went.', ['"Why?" he asked.', '"Go!"', "She went."]),
        ("He paused... then left. She waited… He came.",
         ["He paused... then left.", "She waited…", "He came."]),
        ("Really?! Yes!!! No.", ["Really?!", "Yes!!!", "No."]),
        ("(It rained.) [We left.] **Home.**", ["(It rained.)", "[We left.]", "**Home.**"]),
        ("我来了。你走了！真的吗？", ["我来了。", "你走了！", "真的吗？"]),
        ("यह घर है। वह गया।", ["यह घर है।", "वह गया।"]),
        ("# Title\nIt rained\nall day. Yes.", ["Title", "It rained\nall day.", "Yes."]),
        ("#1 is tea\nand milk.", ["#1 is tea\nand milk."]),
        ("Buy:\n1. milk\n2) bread. Now.\n* jam", ["Buy:", "milk", "bread.", "Now.", "jam"]),
        ("One\n\nTwo\n***\nThree", ["One", "Two", "***\nThree"]),
        ("We won! 🎉", ["We won! 🎉"]),
        ("Visit a.example.org now. Go.", ["Visit a.example.org now.", "Go."]),
        ("... --", []),
    ],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str]) -> None:
    assert texts.sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't, don’t: well-known!", ["Don't", "don’t", "well-known"]),
        ("**bold** _it_ snake_case 3.5 - x", ["bold", "it_", "snake_case", "3", "5", "x"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("re\u0301sume\u0301", ["re\u0301sume\u0301"]),
        ("'quoted' rock-'n'-roll", ["quoted", "rock", "n", "roll"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert texts.words(text) == words


@settings(deadline=None)
@given(PROSE)
def test_sentences_hold_words_and_lose_none_but_list_marks(text: str) -> None:
    sentences = texts.sentences(text)
    assert all(texts.runs(sentence) for sentence in sentences)
    assert all(sentence == sentence.strip() for sentence in sentences)
    kept = [run for sentence in sentences for run in texts.runs(sentence)]
    unmarked = [run for line in text.split("\n") for run in texts.runs(texts.unmarked(line))]
    assert kept == unmarked


@settings(deadline=None)
@given(PROSE)
def test_paragraphs_hold_every_run_in_order(text: str) -> None:
    assert [run for block in texts.paragraphs(text) for run in texts.runs(block)] == texts.runs(
        text
    )


@settings(deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=8).filter(str.strip))
def test_a_phrase_between_spaces_is_found(text: str, phrase: str) -> None:
    assert texts.count_word(f"{text} {phrase} {text}", phrase) > 0


@settings(deadline=None)
@given(st.text(max_size=30))
def test_bare_tokens_keep_their_letters(token: str) -> None:
    bare = texts.bare(token)
    assert bare in token
    assert [c for c in bare if c.isalnum()] == [c for c in token if c.isalnum()]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [".", ". ", "...x", '."', "> ", "1. ", "a-", "'", "\n", "Mr. ", ".*", "is.Two", ".“(", "~~"],
)
def test_time_is_not_quadratic(piece: str) -> None:
    long = piece * (100_000 // len(piece))
    assert texts.runs(" ".join(texts.sentences(long))) in (texts.runs(long), [])
    assert texts.runs(" ".join(texts.paragraphs(long))) == texts.runs(long)
    assert len(texts.words(long)) <= len(long)
