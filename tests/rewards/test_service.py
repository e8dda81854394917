"""The HTTP interface of a running service."""

import json
from typing import Any

import pytest

from rewards.schema import BATCH
from tests.rewards.service import Service

RIGHT: dict[str, Any] = {"id": "r", "verifier": "answer", "answers": ["42"], "gold": ["42"]}


def test_one_item_or_many(service: Service) -> None:
    status, one = service.ask("POST", "/v1/score", RIGHT)
    assert status == 200
    assert [(v["id"], v["status"], v["score"]) for v in one["verdicts"]] == [("r", "scored", 1.0)]
    wrong = {**RIGHT, "id": "w", "answers": ["41"]}
    verdicts = service.score(wrong, RIGHT, wrong)
    assert [(v["id"], v["score"]) for v in verdicts] == [("w", 0.0), ("r", 1.0), ("w", 0.0)]


def test_items_go_to_their_own_verifier(service: Service) -> None:
    half = {"id": "h", "answers": ["1/2"], "gold": ["0.5"]}
    verdicts = [service.score({**half, "verifier": name})[0] for name in ("answer", "math")]
    assert [(v["verifier"], v["score"]) for v in verdicts] == [("answer", 0.0), ("math", 1.0)]


def test_an_unknown_verifier_abstains(service: Service) -> None:
    verdicts = service.score({**RIGHT, "id": "o", "verifier": "oracle"}, RIGHT)
    assert [(v["status"], v["score"]) for v in verdicts] == [("abstained", None), ("scored", 1.0)]
    assert verdicts[0]["reason"] == "unknown_verifier"
    assert "answer, math" in verdicts[0]["detail"]


@pytest.mark.parametrize("verifier", ["answer", "math"])
@pytest.mark.parametrize("gold", [[], None, 42, [42], {"some_of": ["42"]}, [""], "", ["42", ""]])
def test_gold_that_means_nothing_is_no_score(service: Service, verifier: str, gold: Any) -> None:
    (verdict,) = service.score({**RIGHT, "verifier": verifier, "gold": gold})
    assert (verdict["status"], verdict["score"]) == ("abstained", None)


@pytest.mark.parametrize(
    "parameters", [{"normaliser": "loose"}, {"tool": {"nome": "x"}}, {"case": True}]
)
def test_unknown_parameters_are_no_score(service: Service, parameters: Any) -> None:
    (verdict,) = service.score({**RIGHT, "parameters": parameters})
    assert (verdict["status"], verdict["reason"]) == ("abstained", "bad_item")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"[]", "valid dictionary"),
        ({"items": []}, "at least 1"),
        ({"items": [RIGHT] * (BATCH + 1)}, f"at most {BATCH}"),
        ({"items": [RIGHT], "more": 1}, "Extra inputs"),
        ({**RIGHT, "id": 7}, "valid string"),
        ({**RIGHT, "answers": "42"}, "valid list"),
        ({**RIGHT, "answers": [42]}, "valid string"),
        ({**RIGHT, "answer": ["42"]}, "Extra inputs"),
        ({key: RIGHT[key] for key in ("id", "verifier", "gold")}, "give `response` or `answers`"),
        (json.dumps(RIGHT).replace('["42"]', "NaN").encode(), "expected value"),
        (b'{"id": "\\ud800"}', "hex escape"),
    ],
)
def test_a_malformed_body_is_refused(service: Service, body: Any, says: str) -> None:
    status, content = service.ask("POST", "/v1/score", body)
    assert status == 422
    assert says in json.dumps(content)


def test_the_answer_tool_is_read_from_raw_text_too(service: Service) -> None:
    block = '<|tools_prefix|>[{"display_answers": {"answers": ["42"]}}]<|tools_suffix|>'
    raw = {"id": "raw", "gold": "42", "response": f"<|inner_prefix|>7<|inner_suffix|>{block}"}
    verdicts = [service.score({**raw, "verifier": name})[0] for name in ("answer", "math")]
    assert [v["score"] for v in verdicts] == [1.0, 1.0]


def test_of_several_answers_the_worst_counts_in_math(service: Service) -> None:
    item = {"verifier": "math", "gold": "1/2"}
    answers: list[list[str]] = [["0.5", r"\frac{2}{4}"], ["0.5", "0.4"], []]
    verdicts = service.score(*({"id": str(given), **item, "answers": given} for given in answers))
    assert [v["score"] for v in verdicts] == [1.0, 0.0, 0.0]
    assert verdicts[2]["reason"] == "no_answer"


def test_probes(service: Service) -> None:
    status, health = service.ask("GET", "/healthz")
    assert status == 200
    assert health["verifiers"] == ["answer", "math"]
    status, content = service.ask("GET", "/readyz")
    each = {"ready": True, "reason": None}
    assert (status, content) == (200, {"ready": True, "verifiers": {"answer": each, "math": each}})


def test_metrics_count_verdicts(service: Service) -> None:
    def counted() -> float:
        return service.counted("rewards_verdicts_total", verifier="answer", status="scored")

    before = counted()
    service.score(RIGHT, RIGHT, RIGHT)
    assert counted() == before + 3
    assert service.counted("rewards_total_seconds_count", verifier="answer") >= before + 3


def test_a_large_response_passes(service: Service) -> None:
    response = "so " * 300_000 + r"\boxed{42}"
    (verdict,) = service.score(
        {"id": "large", "verifier": "math", "response": response, "gold": "42"}
    )
    assert verdict["score"] == 1.0
