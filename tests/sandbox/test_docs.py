"""docs/sandbox.md works, as tests/page.py says, and names all that there is."""

import re
from pathlib import Path
from typing import get_args

from sandbox.languages import BUILT_IN
from sandbox.metrics import Metrics
from sandbox.schema import Limits, Verdict
from sandbox.tiers.process import Process
from tests.page import DOCS, follow

PAGE = (DOCS / "sandbox.md").read_text()


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    follow(PAGE, tmp_path)


def test_the_page_names_all_there_is() -> None:
    counted = re.findall(r"^# TYPE (\w+) ", Metrics().text().decode(), re.MULTILINE)
    metrics = {name for name in counted if not name.endswith("_created")}
    for name in {*get_args(Verdict), *BUILT_IN, *Limits.model_fields, *metrics}:
        assert f"`{name}`" in PAGE, name


def test_the_limits_told_are_those_there_are() -> None:
    for name, field in Limits.model_fields.items():
        most = next(bound.le for bound in field.metadata if hasattr(bound, "le"))
        assert re.search(rf"\| `{name}` \| [^|]+ \| {most} \|", PAGE), name
        if field.default is not None:
            assert re.search(rf"\| `{name}` \| {field.default:g} \|", PAGE), name


def test_a_tier_that_is_said_not_to_protect_says_so_itself() -> None:
    enforced = Process(allow_unsafe=True).enforces()
    for protection in ("network", "filesystem", "system calls", "users"):
        assert enforced[protection] == "nothing"
