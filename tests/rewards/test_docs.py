"""docs/rewards.md works, as tests/page.py says, and names all that there is."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

from rewards.metrics import Metrics
from rewards.verifiers import BUILT_IN
from rewards.verifiers.code import Parameters
from rewards.verifiers.code.extraction import ALIASES
from rewards.verifiers.code.suites import GOLD, suite
from rewards.verifiers.normalisers import NORMALISERS
from tests.page import DOCS, follow
from tests.rewards.test_judge import Grader

PAGE = (DOCS / "rewards.md").read_text()


@contextmanager
def a_model(port: int) -> Iterator[None]:
    """Stands for the judge's model: an endpoint that grades by the digit it reads."""
    with ThreadingHTTPServer(("127.0.0.1", port), Grader) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join(10)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    follow(PAGE, tmp_path, {"8000": a_model})


def test_the_golds_shown_are_golds_of_code() -> None:
    table = PAGE.partition("| data set | gold |")[2].partition("\n\n")[0]
    golds = re.findall(r"`([{\[].*?[}\]])`", table)
    assert len(golds) == len(table.strip().splitlines()) - 1
    for gold in map(json.loads, golds):
        assert suite(GOLD.validate_python(gold), wrapped_outputs=False)["mode"]


def test_the_page_names_all_there_is() -> None:
    metrics = Metrics()
    metrics.gauges["rewards_items_waiting"] = ("", lambda: 0.0)
    counted = {family.name for family in metrics.collect()}
    for name in {*NORMALISERS, *BUILT_IN, *counted, *Parameters.model_fields, *ALIASES}:
        assert re.search(rf"`{name}(_total)?`", PAGE), name
