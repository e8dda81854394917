"""docs/evaluation.md works, as tests/page.py says; it names all suites and generators of probes."""

from pathlib import Path
from typing import get_args

from posttrain.data.generators import GENERATORS
from posttrain.data.probes.functions import Category
from posttrain.evaluation.suites import Suite
from tests.page import DOCS, follow

PAGE = (DOCS / "evaluation.md").read_text()


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    follow(PAGE, tmp_path)


def test_the_page_names_every_kind_of_suite_and_category() -> None:
    kinds = [get_args(s.model_fields["kind"].annotation)[0] for s in get_args(get_args(Suite)[0])]
    for name in (*kinds, *get_args(Category)):
        assert f"`{name}`" in PAGE, name
    for name in GENERATORS:
        if name.startswith("probes.") and name != "probes.refusals":
            assert f"generate: {name}" in PAGE, name
