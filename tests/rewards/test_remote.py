"""Verifiers behind other services: whatever goes wrong there is no score."""

from collections.abc import Iterator

import pytest

from rewards.remote import AT_ONCE
from tests.rewards.service import Service, serving
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
