"""Verifiers behind other services: whatever goes wrong there is no score."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewards.remote import AT_ONCE
from tests.rewards.distant import DOWN
from tests.rewards.service import Service, serving, start
from tests.waiting import eventually


@pytest.fixture(scope="module")
def distant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a remote verifier, and a deadline of a second."""
    options = ("--verifiers", "distant=tests.rewards.distant", "--workers", "1", "--deadline", "1")
    with serving(tmp_path_factory.mktemp("distant"), *options) as running:
        yield running


def item(word: str, name: str = "i") -> dict[str, str]:
    return {"id": name, "verifier": "distant", "response": word, "gold": name}


@pytest.mark.parametrize(
    ("word", "reason", "says"),
    [
        ("unavailable", "sandbox_down", "nobody answers"),
        ("raise", "error", "RuntimeError: a bug"),
        ("hang", "deadline", "within 1 s"),
    ],
)
def test_a_fault_there_is_failed(distant: Service, word: str, reason: str, says: str) -> None:
    (verdict,) = distant.score(item(word))
    assert (verdict["status"], verdict["score"], verdict["reason"]) == ("failed", None, reason)
    assert says in verdict["detail"]


def test_faults_stay_with_their_item(distant: Service) -> None:
    words = ["right", "raise", "wrong", "hang", "right", "unavailable"]
    verdicts = distant.score(*(item(word, str(n)) for n, word in enumerate(words)))
    assert [v["score"] for v in verdicts] == [1.0, None, 0.0, None, 1.0, None]


def test_a_bounded_number_is_asked_at_once(distant: Service) -> None:
    """The others wait, and their deadline with them."""
    verdicts = distant.score(*(item("count", str(n)) for n in range(5 * AT_ONCE)))
    assert {v["score"] for v in verdicts} == {1.0}
    assert max(int(v["feedback"]) for v in verdicts) == AT_ONCE
    assert eventually(lambda: distant.counted("rewards_items_in_flight") == 0)


def test_its_canary_is_asked(distant: Service) -> None:
    _, content = distant.ask("GET", "/readyz")
    assert content["verifiers"] == {"distant": {"ready": True, "reason": None}}


def test_a_failed_verdict_says_how_long_it_took(distant: Service) -> None:
    (verdict,) = distant.score(item("hang", "long"))
    assert verdict["elapsed_ms"] >= 1000


def test_an_outage_is_seen_behind_remembered_verdicts_and_a_full_queue(tmp_path: Path) -> None:
    """Bugs: what was remembered passed; and canaries waited behind items that nobody answered."""
    down = tmp_path / "down"
    options = ("--verifiers", "distant=tests.rewards.distant", "--workers", "1")
    process = start(tmp_path, *options, env={DOWN: str(down)})
    try:
        assert eventually((tmp_path / "port").exists)
        service = Service(process, int((tmp_path / "port").read_text()))
        assert eventually(service.is_ready)
        assert service.score(item("right"))[0]["score"] == 1.0
        many = [item("hang", str(n)) for n in range(AT_ONCE)]
        asking = threading.Thread(target=service.score, args=many)
        asking.start()
        down.touch()
        assert service.score(item("right"))[0]["score"] == 1.0, "it is remembered"
        fresh = json.dumps(item("right")).encode()
        assert eventually(lambda: not service.is_ready())
        down.unlink()
        assert eventually(service.is_ready)
        asking.join(30)
        down.touch()
        reply = service.exchange(
            "POST", "/v1/score", fresh, content_type="application/json", cache_control="no-cache"
        )
        assert json.loads(reply.body)["verdicts"][0]["status"] == "failed"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert errors.splitlines() == [
        "rewards: distant is ready",
        "rewards: distant is not ready: canary right: failed (sandbox_down: nobody answers), not 1",
        "rewards: distant is ready",
    ]
