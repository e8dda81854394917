"""Generators of reasoning-gym: frozen questions keep their score, and sides never mix."""

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("reasoning_gym", reason="install posttrain[smollm2]")

from posttrain.data.checks.shape import problems
from posttrain.data.packaged import reasoning
from posttrain.data.packaged.encoding import encoded
from posttrain.data.packaged.holding import held_out
from rewards.schema import Item, Verdict
from rewards.verifiers import evaluated, load
from rewards.verifiers import reasoning as verifier

GENERATORS = (
    "chain_sum", "spell_backward", "letter_counting", "arc_agi", "rearc", "sudoku", "countdown",
    "polynomial_equations", "time_intervals", "shortest_path", "propositional_logic", "graph_color",
)  # fmt: skip
"""Plain texts, tuples within lists, keys that are numbers, and questions of many right answers."""


def asked(**said: Any) -> reasoning.Questions:
    return reasoning.Questions.model_validate({"generator": "chain_sum", **said})


def answered(row: Mapping[str, Any], response: str) -> Verdict:
    item = {key: row[key] for key in ("verifier", "gold", "parameters")}
    # As it travels: through the artifact's lines, then the service's requests.
    return verifier.verify(Item(id="1", response=response, **json.loads(json.dumps(item))))


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_frozen_question_is_scored_as_the_package_scores_it(generator: str) -> None:
    from reasoning_gym.factory import create_dataset

    rows = reasoning.rows(1, asked(generator=generator, rows=2, holdout=1))
    made = create_dataset(generator, size=1, seed=0)
    for row in rows["train"] + rows["holdout"]:
        assert not list(problems(row))
        entry = row["gold"]["entry"]
        original = {**entry, "metadata": verifier.restored(entry["metadata"])}
        for answer in (entry["answer"], "surely not", ""):
            if answer is None:
                continue
            verdict = answered(row, f"Well. <answer>{answer}</answer>")
            assert verdict.status == "scored", verdict.detail
            assert verdict.score == made.score_answer(answer.strip(), original)
        if entry["answer"] is not None:
            assert answered(row, f"<answer>{entry['answer']}</answer>").score == 1


def test_no_train_split_of_any_seed_has_a_question_held_out() -> None:
    settings = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    texts = []
    for seed in (1, 2):
        made = reasoning.rows(seed, asked(settings=settings, rows=60, holdout=8, seed=seed))
        sides = {
            split: {row["messages"][-1]["content"] for row in rows} for split, rows in made.items()
        }
        assert [len(sides["train"]), len(sides["holdout"])] == [60, 8]
        assert all(held_out(text, reasoning.SHARE) for text in sides["holdout"])
        assert not any(held_out(text, reasoning.SHARE) for text in sides["train"])
        texts.append(sides["train"])
    assert texts[0] != texts[1]


def test_the_same_seed_gives_the_same_rows() -> None:
    one, two = (reasoning.rows(4, asked(rows=5, holdout=2)) for _ in range(2))
    assert one == two
    assert one != reasoning.rows(5, asked(rows=5, holdout=2))


def test_dialogues_end_with_the_answer_in_its_tags() -> None:
    [row, *_] = reasoning.rows(1, asked(rows=3, form="dialogues"))["train"]
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    [prompt, *_] = reasoning.rows(1, asked(rows=3))["train"]
    assert prompt["messages"] == row["messages"][:-1]
    assert answered(prompt, row["messages"][-1]["content"]).score == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"generator": "chain_sums", "rows": 1}, "chain_sums"),
        ({"rows": 1, "settings": {"min_term": 2}}, "min_term"),
        ({"rows": 1, "settings": {"min_terms": 0}}, "chain_sum"),
        ({"rows": 300, "settings": {"min_terms": 2, "max_terms": 2, "max_digits": 1,
                                     "min_digits": 1}}, "too few different questions"),
        ({"generator": "graph_color", "rows": 1, "form": "dialogues"}, "gives no answers"),
    ],
)  # fmt: skip
def test_what_a_generator_cannot_do_is_told(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        reasoning.rows(1, asked(**said))


def test_a_recipe_asks_for_something_and_measures_on_prompts() -> None:
    with pytest.raises(ValueError, match="give rows"):
        asked()
    with pytest.raises(ValueError, match="leave out holdout"):
        asked(rows=1, holdout=1, form="dialogues")


def test_the_verifier_passes_its_own_canaries() -> None:
    _, profile = load("reasoning", "rewards.verifiers.reasoning")
    assert profile.runs == "worker"


@pytest.fixture(scope="module")
def row() -> Mapping[str, Any]:
    found: Mapping[str, Any] = reasoning.rows(1, asked(rows=1))["train"][0]
    return found


def test_the_last_tags_outside_the_deliberation_hold_the_answer(row: Mapping[str, Any]) -> None:
    right = row["gold"]["entry"]["answer"]
    wrong, good = "<answer>surely</answer>", f"<answer> {right}\n</answer>"
    assert answered(row, f"{wrong} no: {good}").score == 1
    assert answered(row, f"<think>{wrong}</think>{good}").score == 1
    assert answered(row, f"{good} no: {wrong}").reason == "wrong"
    assert answered(row, f"<think>{good}</think>").reason == "no_answer"
    for unfinished in ("", str(right), f"<answer>{right}"):
        verdict = answered(row, unfinished)
        assert (verdict.score, verdict.reason) == (0, "no_answer")


def test_only_full_scores_count_where_that_is_asked_for(row: Mapping[str, Any]) -> None:
    near = f"<answer>it is {row['gold']['entry']['answer']}</answer>"
    given = answered(row, near)
    assert given.score is not None
    assert 0 < given.score < 1
    assert answered({**row, "parameters": {"score": "right"}}, near).score == 0


def test_a_fault_of_the_package_is_no_score(
    row: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
            raise ZeroDivisionError("by zero")

    monkeypatch.setattr(verifier, "_generator", lambda name, settings: Broken())
    verdict = answered(row, "<answer>4</answer>")
    assert (verdict.status, verdict.score, verdict.reason) == ("abstained", None, "unscorable")
    assert "chain_sum: ZeroDivisionError: by zero" in (verdict.detail or "")


@pytest.mark.parametrize("given", [float("nan"), 1.5, -0.1])
def test_a_score_out_of_bounds_is_none(
    given: float, row: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
            return given

    monkeypatch.setattr(verifier, "_generator", lambda name, settings: Odd())
    assert answered(row, "<answer>4</answer>").status == "abstained"


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (None, "bad_gold"), ("4", "bad_gold"), ({"generator": "chain_sum"}, "bad_gold"),
        (
            {"generator": "none", "entry": {"question": "", "answer": "", "metadata": {}}},
            "bad_gold",
        ),
    ],
)  # fmt: skip
def test_gold_that_is_not_understood_is_no_score(gold: Any, reason: str) -> None:
    verdict = verifier.verify(Item(id="1", verifier="r", response="<answer>4</answer>", gold=gold))
    assert (verdict.status, verdict.reason) == ("abstained", reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["tuple", "pairs"]) | st.integers()
            | st.tuples(st.integers()), inner, max_size=3,
        )
    ),
    max_leaves=12,
)  # fmt: skip


def exact(value: Any) -> Any:
    """Told apart by type too: 1, 1.0 and True are equal in Python."""
    if isinstance(value, list | tuple):
        return type(value).__name__, [exact(each) for each in value]
    if isinstance(value, dict):
        return "dict", [(exact(key), exact(each)) for key, each in value.items()]
    return type(value).__name__, value


@given(JSON)
def test_what_json_lacks_survives_it(value: Any) -> None:
    assert exact(verifier.restored(json.loads(json.dumps(encoded(value))))) == exact(value)


def test_what_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(ValueError, match="a set cannot be written down"):
        encoded({"a": [{1, 2}]})


@pytest.mark.parametrize("generator", sorted(evaluated.GENERATORS))
def test_an_answer_that_would_run_is_not_shown_to_the_package(
    generator: str, tmp_path: Path
) -> None:
    [row] = reasoning.rows(1, asked(generator=generator, rows=1))["train"]
    for attack in (
        "__import__('pathlib').Path('{}').touch()", "[open('{}', 'w')]", "open\t('{}', 'w')",
        "(lambda: open('{}', 'w'))()", "[f'{{open(\"{}\", \"w\")}}']", "(open#\n('{}', 'w'))",
        "[x for x in ().__class__.__base__.__subclasses__()]", "ｏｐｅｎ('{}', 'w')",
        "[open][0]('{}', 'w')", "{{1: open}}[1]('{}', 'w')", "(open)('{}', 'w')",
        "(open\n)\n('{}', 'w')",
    ):  # fmt: skip
        verdict = answered(row, f"<answer>{attack.format(tmp_path / 'made')}</answer>")
        assert verdict.status == "scored"
        assert verdict.score is not None
        assert verdict.score < 0.1
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("generator", ["simple_integration", "countdown"])
def test_text_that_spells_a_call_is_not_shown_to_sympy(generator: str, tmp_path: Path) -> None:
    """SymPy evaluates text where it takes an expression; put together, it matches no pattern."""
    [row] = reasoning.rows(1, asked(generator=generator, rows=1))["train"]
    path = tmp_path / "made"
    spelled = f"""'open'+'+('[1]+'+"{path}"'[1:]+','+'+"w"'[1:]+'+)'[1]"""
    for attack in (spelled, f"exp({spelled})", f"(S)({spelled})"):
        verdict = answered(row, f"<answer>{attack}</answer>")
        assert verdict.status == "scored"
        assert not path.exists()


@pytest.mark.parametrize("called", ["open", "exit", "input", "S", "N", "sympify"])
def test_what_stands_in_brackets_is_no_function_to_be_called(called: str) -> None:
    assert not evaluated.harmless("countdown", f"({called})(0)")
    assert not evaluated.harmless("countdown", f"(x + 1)(0 or {called})(0)")


def test_products_without_a_sign_are_harmless() -> None:
    for product in ("2(x + 1)", "(x + 1)(x - 2)", "(sqrt(x) + 1)(x)"):
        assert evaluated.harmless("polynomial_multiplication", product)


@pytest.mark.parametrize("generator", sorted(evaluated.GENERATORS))
def test_right_answers_of_generators_that_evaluate_are_harmless(generator: str) -> None:
    for row in reasoning.rows(2, asked(generator=generator, rows=4))["train"]:
        answer = row["gold"]["entry"]["answer"]
        assert evaluated.harmless(generator, answer), answer
        assert answered(row, f"<answer>{answer}</answer>").score == 1


def test_no_other_generator_evaluates_an_answer() -> None:
    package = Path(str(importlib.util.find_spec("reasoning_gym").origin)).parent  # type: ignore[union-attr]
    found = {
        path.stem
        for path in package.rglob("*.py")
        if re.search(r"(?<![\w.])(?:eval|parse_expr|sympify)\((?:\w*answer)\b", path.read_text())
        or re.search(r"\.(?:parse_expr|sympify)\(\w*answer\b", path.read_text())
    }
    assert found == evaluated.GENERATORS
