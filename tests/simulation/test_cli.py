"""`posttrain simulate` as it is typed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posttrain.cli import app
from tests.simulation.test_measured import LENGTHS, folder

SETTINGS = """\
steps: 4
group_size: 2
prompts_per_step: 2
length_tokens: {median: 10, p99: 40}
rollout: {accelerators: 2, slots_per_replica: 4, decode: {seconds_by_live: {1: 0.1, 4: 0.2}}}
trainer: {accelerators: 2, step_seconds: 3}
sync: {seconds: 0.5}
reward: {latency_seconds: 0.3}
equal_rewards: 20%
rules:
  - {rule: count, staleness: 0.5}
  - {rule: windowed, staleness: 1, window_prompts: 3}
"""


def typed(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(SETTINGS)
    return str(path)


def test_a_row_for_each_rule(file: str) -> None:
    shown = typed(file)
    for name in ("synchronous", "synchronous, streamed", "count 0.5", "windowed 1 (3)"):
        assert name in shown


def test_json_has_all_that_the_table_has(file: str) -> None:
    found = json.loads(typed(file, "--json"))
    assert [row["rule"] for row in found][2:] == ["count 0.5", "windowed 1 (3)"]
    plain, streamed, *_ = found
    assert plain["against_synchronous"] == streamed["against_streamed"] == 1
    assert plain["best_split"] is None
    for row in found:
        assert row["of_ceiling"] <= 1
        assert row["reward_replicas_needed"] >= 1
    assert [row["bound"] for row in found] == [0, 0, None, 2]


def test_without_sizing_nothing_is_searched(file: str) -> None:
    [*_, last] = json.loads(typed(file, "--json", "--no-sizing"))
    assert "best_split" not in last
    assert last["rule"] in typed(file, "--no-sizing")


def test_settings_of_a_run_are_saved_and_give_the_same_figures(tmp_path: Path) -> None:
    ran, saved = folder(tmp_path), tmp_path / "saved.yaml"
    first = typed("--from", str(ran), "--save", str(saved), "--json", "--no-sizing")
    assert typed(str(saved), "--json", "--no-sizing") == first


def test_lengths_may_come_from_elsewhere(tmp_path: Path) -> None:
    ran = folder(tmp_path)
    (ran / "lengths.json").rename(tmp_path / "others.json")
    shown = typed("--from", str(ran), "--lengths", str(tmp_path / "others.json"), "--no-sizing")
    assert "verl-drop 1" in shown
    assert len(LENGTHS) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seconds: 0.5}", "secondz: 0.5}"), "unknown key in sync: 'secondz'"),
        (("rule: count", "rule: cuont"), "'cuont'; did you mean 'count'"),
        (("20%", "100%"), "must be less than 1"),
        (("accelerators: 2, slots", "accelerators: 3, per_replica: 2, slots"), "do not divide"),
        (("p99: 40", "p99: 4"), "p99 4 is below the median 10"),
    ],
)
def test_a_wrong_file_is_told_by_its_line(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(SETTINGS.replace(*change))
    with pytest.raises(ValueError, match=message) as fault:
        typed(str(path))
    assert "wrong.yaml:" in str(fault.value)


@pytest.mark.parametrize("arguments", [[], ["x.yaml", "--from", "y"]])
def test_one_source_is_wanted(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match="give a settings file, or --from"):
        typed(*arguments)


def test_options_of_a_run_want_a_run(file: str) -> None:
    with pytest.raises(ValueError, match="go with --from"):
        typed(file, "--save", "x.yaml")
