"""lm-evaluation-harness measures what is served: a scripted server, and a real checkpoint."""

import json
import threading
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import torch
import uvicorn
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from posttrain.evaluation import scoring
from posttrain.evaluation.harness.endpoint import served
from posttrain.evaluation.harness.measuring import Endpoint, figures, measure, task_digest
from posttrain.evaluation.prompts import PromptScores, drop
from posttrain.evaluation.suites import Harness, Suite
from posttrain.stages import Progress, evaluate
from tests.evaluation.tiny_model import chat_format, model

pytest.importorskip("lm_eval", reason="the extra `harness` is not installed")
VERSION = "0.4.13"
CHAT = chat_format()
MODEL = model(len(CHAT.tokenizer))
SUMS: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_text": "{{question}} =",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 6},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "filter_list": [
        {"name": "digits", "filter": [
            {"function": "regex", "regex_pattern": "(\\d+)"}, {"function": "take_first"}]},
    ],
}  # fmt: skip
CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "doc_to_choice": ["a", "b", "c"],
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
ROWS = [{"question": f"{n} + 1", "answer": str(n + 1), "task": "sum"} for n in range(4)]


def suite(task: Any, **given: Any) -> Harness:
    settled = {"metric": "exact_match", "chat": False, "version": VERSION, **given}
    return Harness(kind="harness", data="p.holdout", task=task, **settled)


class Script:
    """A completions server that answers by script and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: Any = lambda prompt: "?"
        self.app = FastAPI()
        self.app.post("/v1/completions")(self.completions)

    def completions(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(asked)
        texts = [self.answers(CHAT.tokenizer.decode(ids)) for ids in asked["prompt"]]
        return {"choices": [{"index": at, "text": text} for at, text in enumerate(texts)]}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    CHAT.tokenizer.save_pretrained(folder)
    MODEL.config.save_pretrained(folder)
    return folder


@pytest.fixture
def script(tokenizer: Path) -> Iterator[tuple[Script, Endpoint]]:
    """A scripted server on a free port."""
    made = Script()
    server = uvicorn.Server(uvicorn.Config(made.app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield made, Endpoint(f"http://127.0.0.1:{port}/v1/completions", "m", tokenizer, 512)
    server.should_exit = True
    thread.join(30)


def test_a_scripted_server_is_scored_document_by_document(script: tuple[Script, Endpoint]) -> None:
    made, endpoint = script
    made.answers = lambda prompt: {"0": " it is 1", "1": " 2!", "2": " 7"}.get(prompt[0], " none")
    kept: list[PromptScores] = []
    task = suite(SUMS, filter="digits")
    found, ran = measure(endpoint, task, ROWS, seed=1, keep=kept.append)
    assert kept[0].attempts == [[1.0], [1.0], [0.0], [0.0]]
    assert kept[0].groups == [["sum"]] * 4
    assert found["accuracy"] == found["metric.exact_match"] == 0.5
    assert found["accuracy.sum"] == 0.5
    assert ran.version == VERSION
    assert len(ran.task_digest) == 64
    sent = made.asked[0]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (6, 0, 1)


def result(**config: Any) -> dict[str, Any]:
    """As the harness's process writes it: two documents, by two filters."""
    hashes = {"doc_hash": "a", "prompt_hash": "b", "target_hash": "c"}
    samples = [
        {"doc_id": n, "filter": name, **hashes, "metrics": {"exact_match": n, "text": "so"}}
        for name in ("strict", "loose")
        for n in (1, 0)
    ]
    return {"version": VERSION, "config": {"doc_to_text": "q", **config}, "samples": samples}


def test_scores_are_those_of_one_filter_in_the_order_of_the_rows() -> None:
    kept: list[PromptScores] = []
    found = figures(suite(SUMS, filter="loose"), ROWS[:2], result(), kept.append)
    assert kept[0].attempts == [[0.0], [1.0]]
    assert (found["n"], found["metric.exact_match"]) == (2, 0.5)
    assert "metric.text" not in found


@pytest.mark.parametrize(
    ("task", "rows", "told"),
    [
        (suite(SUMS), 2, "has no filter 'none'; it has loose, strict"),
        (suite(SUMS, filter="loose", metric="f1"), 2, "no metric 'f1' of each document"),
        (suite(SUMS, filter="loose"), 3, "it has not one result for each of 3 rows"),
    ],
)
def test_a_suite_that_does_not_fit_its_task_is_told(task: Harness, rows: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        figures(task, ROWS[:rows], result(), drop)


def test_the_digest_is_of_the_task_wherever_it_lay() -> None:
    here = task_digest(result(dataset_kwargs={"data_files": "/here"}))
    assert here == task_digest(result(dataset_kwargs={"data_files": "/there"}))
    assert here != task_digest(result(num_fewshot=1))
    changed = result()
    changed["samples"][0]["prompt_hash"] = "z"
    assert here != task_digest(changed)


def test_examples_need_rows_to_come_from(script: tuple[Script, Endpoint]) -> None:
    with pytest.raises(ValueError, match="fewshot 2 needs examples"):
        measure(script[1], suite(SUMS, filter="digits", fewshot=2), ROWS, seed=1)


def test_a_task_of_the_harness_is_asked_with_our_documents(script: tuple[Script, Endpoint]) -> None:
    made, endpoint = script
    made.answers = lambda prompt: " So it is.\n#### 3"
    rows = [{"question": q, "answer": f"So. #### {a}"} for q, a in (("1 + 2", 3), ("2 + 2", 4))]
    task = suite("gsm8k", filter="strict-match", fewshot=1)
    found, _ = measure(endpoint, task, rows, seed=1, train=rows[:1] * 3)
    assert found["accuracy"] == 0.5
    shown = CHAT.tokenizer.decode(made.asked[0]["prompt"][0])
    assert shown.count("Question:") == 2  # One example, and what is asked.


def test_another_version_ends_the_measurement(
    script: tuple[Script, Endpoint],
) -> None:
    with pytest.raises(
        RuntimeError, match=r"harness 0\.4\.13 is installed, the suite asks for 0\.1"
    ):
        measure(script[1], suite(SUMS, version="0.1"), ROWS, seed=1)


def test_an_endpoint_that_is_down_ends_the_measurement(tokenizer: Path) -> None:
    nowhere = Endpoint("http://127.0.0.1:9/v1/completions", "m", tokenizer, 512)
    with pytest.raises(RuntimeError, match=r":9/v1/completions does not answer: .*refused"):
        measure(nowhere, suite(SUMS, filter="digits"), ROWS, seed=1)


def test_a_real_model_is_measured_through_its_endpoint(tokenizer: Path) -> None:
    rows = [{"question": f"item {n}", "answer": n % 3} for n in range(6)]
    kept: list[PromptScores] = []
    with served(MODEL, CHAT) as url:
        endpoint = Endpoint(url, "m", tokenizer, 512)
        task = suite(CHOICE, metric="acc")
        measure(endpoint, task, rows, seed=1, keep=kept.append)
    expected = [float(_best(row["question"], ["a", "b", "c"]) == row["answer"]) for row in rows]
    assert [attempts[0] for attempts in kept[0].attempts] == expected


@torch.no_grad()
def _best(question: str, choices: list[str]) -> int:
    """The likeliest continuation by the model itself."""

    def chance(choice: str) -> float:
        before = CHAT.encode(question)
        ids = [*before, *CHAT.encode(f"{question} {choice}")[len(before) :]]
        logs = MODEL(torch.tensor([ids])).logits[0].log_softmax(-1)
        return float(sum(logs[at - 1, ids[at]] for at in range(len(before), len(ids))))

    return max(range(len(choices)), key=lambda at: chance(choices[at]))


def asked(url: str, **body: Any) -> dict[str, Any]:
    request = Request(url, json.dumps({"model": "m", **body}).encode(),
                      {"Content-Type": "application/json"})  # fmt: skip
    with urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(MODEL, CHAT) as place:
        yield place


@settings(max_examples=15)
@given(ids=st.lists(st.integers(4, 400), min_size=2, max_size=12))
def test_echoed_log_probabilities_are_the_models(url: str, ids: list[int]) -> None:
    [choice] = asked(url, prompt=ids, echo=True, logprobs=1, max_tokens=1)["choices"]
    found = choice["logprobs"]["token_logprobs"]
    with torch.no_grad():
        logs = MODEL(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    assert found[0] is None
    assert found[1:-1] == pytest.approx([float(logs[at, t]) for at, t in enumerate(ids[1:])])
    assert len(found) == len(ids) + 1


def test_an_examined_checkpoint_that_reads_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A suite may take hours: without signs within it, its stage would be taken for stalled."""
    monkeypatch.setattr(scoring, "load_model", lambda path, facts: deepcopy(MODEL))
    monkeypatch.setattr(scoring, "load_tokenizer", lambda path, facts: CHAT.tokenizer)
    signs: list[None] = []
    artifact: Any = SimpleNamespace(path=Path(), record=SimpleNamespace(facts={}))
    examiner = scoring.Examiner(artifact, "", 1, lambda: signs.append(None))
    with served(examiner._model, CHAT) as place:
        for number in range(1, 4):
            asked(place, prompt=[4, 5], max_tokens=1)
            assert len(signs) == number


def test_a_suite_that_goes_on_gives_a_sign_every_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Progress] = []
    signs = evaluate.Signs(told.append, 2, "suites")
    signs()
    assert told == [], "it has only begun"
    signs.measured(1, {"one": 0.5})
    monkeypatch.setattr(evaluate, "_EVERY", 0.0)
    signs()
    assert [(sign.step, sign.steps, dict(sign.metrics)) for sign in told] == [
        (1, 2, {"one": 0.5}), (1, 2, {}),
    ]  # fmt: skip


def test_a_generation_is_cut_at_a_stop(url: str) -> None:
    ids = CHAT.encode("It is")
    [whole] = asked(url, prompt=[ids], max_tokens=24)["choices"]
    stop = whole["text"][3:5]
    [cut] = asked(url, prompt=[ids], max_tokens=24, stop=[stop])["choices"]
    assert cut["text"] == whole["text"].partition(stop)[0]
    assert cut["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"prompt": [4, 5], "max_tokens": 100_000}, 400),
        ({"prompt": []}, 400),
        ({"prompt": [4, 5], "n": 3}, 422),  # What is not heeded is refused.
    ],
)
def test_what_cannot_be_answered_is_refused(url: str, body: dict[str, Any], code: int) -> None:
    with pytest.raises(HTTPError) as refused:
        asked(url, **body)
    assert refused.value.code == code


def test_a_suite_says_version_metric_and_whether_it_chats() -> None:
    adapter: TypeAdapter[Suite] = TypeAdapter(Suite)
    given = {"kind": "harness", "data": "p.holdout", "task": "gsm8k"}
    with pytest.raises(ValidationError) as fault:
        adapter.validate_python(given)
    assert {each["loc"][-1] for each in fault.value.errors()} == {"version", "metric", "chat"}
