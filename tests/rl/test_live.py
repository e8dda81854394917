"""The parts of a run sign for themselves, and seldom enough."""

from pathlib import Path

from posttrain.rl.account import Account
from posttrain.rl.live import Live
from posttrain.signs import components


def _account() -> Account:
    account = Account()
    account.apply({"event": "begun", "prompts_per_step": 2, "group": 1, "seed": 1})
    for number in range(2):
        account.apply(
            {"event": "issued", "prompt": number, "row": 0, "source": "sums", "version": 0}
        )
        account.apply({"event": "generating", "prompt": number})
    return account


def _now(work: Path) -> dict[str, tuple[str, str]]:
    return {part.name: (part.doing, part.waits_for) for part in components(work)}


def test_each_part_says_what_it_does_and_for_whom_it_waits(tmp_path: Path) -> None:
    now = [0.0]
    live, account = Live(tmp_path, lambda: now[0]), _account()
    live.begin()
    assert _now(tmp_path) == {
        "trainer": ("starts", ""), "rollouts": ("none yet", "trainer"),
        "verdicts": ("none yet", "rollouts"),
    }  # fmt: skip
    live.waits(1)
    live.generated(account)
    assert _now(tmp_path)["trainer"] == ("waits for batch 1", "rollouts")
    assert _now(tmp_path)["rollouts"] == ("2 generating, 0 queued", "")
    for number in range(2):
        account.apply({"event": "generated", "prompt": number, "response": 0, "tokens": 3})
    live.generated(account)
    assert _now(tmp_path)["rollouts"] == ("0 generating, 0 queued", "verdicts")
    assert _now(tmp_path)["verdicts"] == ("2 verifying", "rewards")
    for number in range(2):
        account.apply({"event": "scored", "prompt": number, "response": 0, "status": "scored"})
    live.scored(account)
    live.updates(1)
    assert _now(tmp_path)["verdicts"] == ("0 verifying", "rollouts")
    assert _now(tmp_path)["trainer"] == ("updates in step 1", "")
    live.watches(1)
    assert _now(tmp_path)["trainer"][1] == "rollouts"
    live.end()
    assert _now(tmp_path) == {}


def test_a_part_that_goes_on_signs_once_a_second_and_a_new_wait_is_told_at_once(
    tmp_path: Path,
) -> None:
    now = [0.0]
    live = Live(tmp_path, lambda: now[0])
    for tick in range(100):
        now[0] = tick / 20
        live.waits(1)
    assert [len(part.times) for part in components(tmp_path)] == [5]
    live.updates(1)
    live.waits(2)
    [trainer] = components(tmp_path)
    assert len(trainer.times) == 7
    assert trainer.doing == "waits for batch 2"
