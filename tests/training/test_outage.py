"""A judge that goes down, slow and silly in the middle of SDPO, behind a real reward service."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from posttrain.data import manners
from posttrain.judging.opinions import ServiceJudge
from posttrain.sdpo import training
from posttrain.training.sft import Start
from tests.rewards.service import serving
from tests.training.conftest import read, write
from tests.training.test_sdpo import CHARTER, settings

TEMPLATES = Path("recipes/charters/judge")
CRITIQUE = {
    "name": "critique",
    "sha256": hashlib.sha256((TEMPLATES / "critique.txt").read_bytes()).hexdigest(),
}


class Model:
    """A chat endpoint in a mood; `silly` are how many questions more get no sensible reply."""

    def __init__(self) -> None:
        self.mood, self.silly = "well", 0

    def reply(self, question: str) -> str:
        """What it says."""
        if "For once" in question:  # The service's own check that somebody is there.
            [said] = re.findall(r"<response \w+>\n(.*)\n</response", question, re.DOTALL)
            return str(said)
        if self.silly:
            self.silly -= 1
            return "I would rather talk about the weather."
        return "article closing: End with a kind word."


@contextmanager
def listening(model: Model) -> Iterator[int]:
    """The port on which `model` answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if model.mood == "slow":
                time.sleep(3)
            said = model.reply(body["messages"][-1]["content"])
            content = json.dumps({"choices": [{"message": {"content": said}}]}).encode()
            self.send_response(503 if model.mood == "down" else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *told: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def test_what_the_judge_does_not_say_is_masked_counted_and_above_the_rate_ends_the_run(
    base: Start, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "critique.txt").write_bytes((TEMPLATES / "critique.txt").read_bytes())
    (texts / f"{CHARTER.reference['name']}.txt").write_bytes(CHARTER.text.encode())
    data = write(tmp_path / "data" / "train.jsonl", manners.requests(1, 12, "usual"))
    judge = {"verifier": "critique", "charter": "tiny", "parameters": {"template": CRITIQUE}}
    config = settings(judge=judge, steps=4, limits={"untaught": 0.5, "patience": 8})
    model = Model()
    for name in ("work", "output"):
        (tmp_path / name).mkdir()

    def train(mood: str) -> list[int]:
        """The same command again; the steps that it took."""
        model.mood, steps = mood, list[int]()

        def report(step: int, *_: Any) -> None:
            steps.append(step)
            model.silly = 2 if step == 1 else 0
            model.mood = "down" if step == 2 and mood == "until 3" else model.mood

        asked = training.Asked(ServiceJudge(config.judge, CHARTER, service.url, 8), {})
        training.train(
            base, data, None, config, asked, 3, backend="cpu", work=tmp_path / "work",
            output=tmp_path / "output", report=report,
        )  # fmt: skip
        return steps

    with listening(model) as port:
        environment = {
            "JUDGE_URL": f"http://127.0.0.1:{port}/v1", "JUDGE_MODEL": "m", "JUDGE_TIMEOUT": "0.5",
            "JUDGE_TEMPLATES": str(texts), "JUDGE_DEADLINE": "1",
        }  # fmt: skip
        with serving(tmp_path, "--verifiers", "critique", env=environment) as service:
            with pytest.raises(RuntimeError, match=r"step 3: 4 of 4 responses .*4 unjudged"):
                train("until 3")
            with pytest.raises(RuntimeError, match=r"step 3: 4 of 4 responses .*4 unjudged"):
                train("slow")
            kept = sorted(path.name for path in (tmp_path / "work" / "samples").iterdir())
            assert kept == ["0.json", "1.json"], "nothing of the step that failed is kept"
            time.sleep(3)  # What was asked meanwhile has been answered.
            assert train("well")[-1] == 4
    lines = read(tmp_path / "output" / "metrics.jsonl")
    assert [line["unjudged"] for line in lines] == [0, 0.5, 0, 0]
    assert [line["taught"] for line in lines] == [1, 0.5, 1, 1]
    spans = read(tmp_path / "output" / "spans.jsonl")
    lost = [each for each in spans if each["outcome"] == "unjudged"]
    assert ["judge_no_feedback" in each["opinion"]["fault"] for each in lost] == [True, True]
    assert all(each["told"] is None for each in lost)
