"""The rule judge through a real service, and what is made of each kind of verdict."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from posttrain.charter import read
from posttrain.charter_cli import app as charter_app
from posttrain.data.turn import AssistantTurn, ToolCall
from posttrain.judge_cli import app
from posttrain.judging.config import JudgeConfig
from posttrain.judging.opinions import Opinion, ServiceJudge, opinion, prompt_text
from rewards.schema import Verdict
from tests.rewards.service import Service, serving

PATH = Path("recipes/charters/tiny.md")
CHARTER = read(PATH.read_text())
ROW = {"messages": [{"role": "user", "content": "Who?"}]}
KEPT = AssistantTurn(content="Thanks for asking. It is a1. Happy to help!", complete=True)
RULES = JudgeConfig(verifier="rules", charter="tiny")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service"), "--verifiers", "rules,answer") as found:
        yield found


def test_opinions_come_in_the_order_of_the_responses(service: Service) -> None:
    judge = ServiceJudge(RULES, CHARTER, service.url, 30)
    certain = AssistantTurn(content="Thanks for asking. It is definitely a1. Happy to help!")
    found = judge.opinions([ROW] * 3, [KEPT, certain, AssistantTurn(content="It is a1.")])
    assert [(each.score, each.article, each.feedback) for each in found] == [
        (1.0, "closing", ""), (0.0, "certainty", "Claim no certainty."),
        (0.0, "closing", "End with a kind word."),
    ]  # fmt: skip
    assert [each.grade for each in found] == pytest.approx([1, 2 / 3, 1 / 3])


def test_answers_are_judged_by_their_gold(service: Service) -> None:
    judge = ServiceJudge(JudgeConfig(verifier="answer"), None, service.url, 30)
    calls = [ToolCall("display_answers", {"answers": [given]}) for given in ("7", "8")]
    turns = [AssistantTurn(tool_calls=(call,), complete=True) for call in calls]
    found = judge.opinions([{**ROW, "gold": ["7"]}] * 2, turns)
    assert [each.score for each in found] == [1.0, 0.0]
    assert found[1].feedback == "the answer is not right"


def test_who_judges_is_known_by_digest(service: Service) -> None:
    told = ServiceJudge(RULES, CHARTER, service.url, 30).identity()
    assert told["judge"] == "rules"
    assert len(told["judge_sha256"]) == 64
    assert told["charter_sha256"] == CHARTER.sha256


def test_a_service_without_the_verifier_is_refused(service: Service) -> None:
    judge = ServiceJudge(JudgeConfig(verifier="math"), None, service.url, 30)
    with pytest.raises(RuntimeError, match="does not serve math, but answer, rules"):
        judge.identity()


def test_a_service_that_is_down_gives_faults_in_bounded_time() -> None:
    judge = ServiceJudge(RULES, CHARTER, "http://127.0.0.1:9", 0.5)
    [found] = judge.opinions([ROW], [KEPT])
    assert found.score is None
    assert "unreachable" in found.fault


def test_only_a_score_is_an_opinion() -> None:
    for status in ("failed", "abstained"):
        verdict = Verdict(id="x", verifier="rules", status=status, reason="down", feedback="So?")
        assert opinion(verdict) == Opinion(None, fault=f"{status} (down): None")


def test_a_judge_of_a_charter_names_it() -> None:
    with pytest.raises(ValidationError, match="name the charter"):
        JudgeConfig(verifier="rules")
    with pytest.raises(ValidationError, match="articles are for rules only"):
        JudgeConfig(verifier="critique", charter="tiny", articles=["closing"])
    with pytest.raises(ValueError, match="has no rule"):
        ServiceJudge(RULES, read(Path("recipes/charters/example.md").read_text()), "http://x", 1)


def test_a_prompt_is_the_users() -> None:
    with pytest.raises(ValueError, match="ends with a user's message, not the assistant's"):
        prompt_text({"messages": [{"role": "assistant", "content": "So."}]})


def test_the_rule_judge_is_calibrated_by_the_command(service: Service, tmp_path: Path) -> None:
    """As by "judge calibrate" of the command line."""
    rows = [{"messages": [*ROW["messages"], {"role": "assistant", "content": f"It is a{n}."}]}
            for n in range(5)]  # fmt: skip
    path = tmp_path / "dialogues.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["calibrate", str(path), "--rewards", service.url, "--verifier", "rules", "--charter",
             str(PATH), "--rungs", "3"]  # fmt: skip
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert told["spearman"] == told["kendall"] == pytest.approx(1)
    assert told["charter_sha256"] == CHARTER.sha256


def test_charters_are_linted_by_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    sound = runner.invoke(charter_app, ["lint", str(PATH)])
    assert (sound.exit_code, CHARTER.sha256 in sound.output) == (0, True)
    long = runner.invoke(charter_app, ["lint", str(PATH), "--judge-context", "100", "--room", "50"])
    assert (long.exit_code, "leaves 50 for it" in long.output) == (1, True)
    (tmp_path / "none.md").write_text("No charter")
    none = runner.invoke(charter_app, ["lint", str(tmp_path / "none.md")])
    assert (none.exit_code, "line 1: a charter begins" in none.output) == (1, True)
