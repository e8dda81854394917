"""The page of samples: all text is there, escaped, and every token has its class."""

from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.checks import lint
from posttrain.data.checks.sample_page import Sample, page, sampled
from tests.data.checks.samples import chat, dataset, dialogue

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


class Reader(HTMLParser):
    """Collects the tags of a page, and class and text of what is in its articles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.tokens: list[tuple[str, str, str]] = []
        self.text = ""
        self._class: tuple[str, str] | None = None
        self._within = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self._within |= tag == "pre"
        if tag == "span" and self._within:
            self._class = (given["class"] or "", given["title"] or "")
            self.tokens.append((*self._class, ""))

    def handle_endtag(self, tag: str) -> None:
        self._class = None
        self._within &= tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._class:
            kind, title, before = self.tokens.pop()
            self.tokens.append((kind, title, before + data))


def read(*rows: Any) -> Reader:
    reader = Reader()
    samples = sampled(chat(), dataset(rows).read(), len(rows), 0)
    reader.feed(page(chat(), samples, "rows of <talk>"))
    reader.close()
    return reader


def whole_row() -> dict[str, Any]:
    row = dialogue("Total of a3 b4?\nNow.", "It is 07.")
    row["tools"] = [tiny.ANSWER_TOOL]
    row["messages"][1] |= {
        "thoughts": "a03 b07",
        "tool_calls": [{"name": "display_answers", "arguments": {"answers": ["07"]}}],
        "tool_outputs": ["shown"],
    }
    return row


def test_every_token_has_its_class() -> None:
    tokens = read(whole_row()).tokens
    said: dict[str, str] = {}
    for kind, _, text in tokens:
        said[kind] = said.get(kind, "") + text
    assert said["target thinking"] == "a03 b07"
    assert said["target control thinking"] == "<|inner_prefix|><|inner_suffix|>"
    assert said["target call"] == '[{"display_answers": {"answers": ["07"]}}]'
    assert said["masked output"] == "shown"
    assert said["target"] == "It is 07."
    assert "Total of a3 b4?↵\nNow." in said["masked"]
    rendered = lint.render(chat(), whole_row())
    ids = [int(token) for _, title, _ in tokens for token in title.split()]
    assert ids == rendered.ids
    targets = [kind.startswith("target") for kind, title, _ in tokens for _ in title.split()]
    assert targets == [bool(target) for target in rendered.mask]


@settings(deadline=None, max_examples=40)
@given(TEXT, TEXT)
def test_text_of_the_data_is_text_on_the_page(question: str, answer: str) -> None:
    row = dialogue(f"<script>{question}", answer + "</pre><b onload='x'>", id="<i>")
    reader = read(row)
    allowed = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span", "pre"}
    assert reader.tags <= allowed | {"article"}
    shown = "".join(text for _, _, text in reader.tokens)
    assert f"<script>{question}<|user_end|>" in shown
    assert f"{answer}</pre><b onload='x'>" in shown


def test_a_character_of_several_tokens_is_shown_whole() -> None:
    kinds = [text for _, title, text in read(dialogue("🙂", "ok")).tokens if " " in title]
    assert kinds == ["🙂"]


def test_broken_rows_are_on_the_page_with_their_fault() -> None:
    reader = read("is not JSON at column 8", {"messages": [{"role": "<b>"}]})
    assert "broken: is not JSON at column 8" in reader.text
    assert "broken: messages[0].role: unknown role '<b>'" in reader.text
    assert not reader.tokens


def test_a_sample_is_even_repeatable_and_in_order() -> None:
    rows = dataset([dialogue(str(n), "ok") for n in range(200)])
    numbers = [
        [sample.row.place.number for sample in sampled(chat(), rows.read(), 20, seed)]
        for seed in (0, 0, 1)
    ]
    assert numbers[0] == numbers[1] != numbers[2]
    assert all(len(drawn) == 20 and drawn == sorted(drawn) for drawn in numbers)
    assert min(numbers[0]) < 60
    assert max(numbers[0]) > 140


def test_the_page_loads_and_runs_nothing() -> None:
    [sample] = sampled(chat(), dataset([dialogue("a", "b")]).read(), 1, 0)
    text = page(chat(), [Sample(*sample)], "one")
    assert "default-src 'none'" in text
    assert not {"<script", "http://", "https://", "src=", "@import"} & set(text.split())
    assert "src=" not in text.replace("default-src", "")
