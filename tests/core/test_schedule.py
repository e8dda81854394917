"""What starts next is decided on plain values."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from posttrain import schedule
from posttrain.plan import Node, Plan
from posttrain.recipe import Recipe
from posttrain.recipe.schema import Services
from posttrain.schedule import Failure
from posttrain.stages import StageConfig


class Work(StageConfig):
    """A stage that keeps `busy` cores busy."""

    busy: int = 1

    def cores(self) -> int:
        return self.busy


def node(name: str, inputs: tuple[str, ...] = (), busy: int = 1) -> Node:
    wiring = {f"data.{source}": source for source in inputs}
    return Node(name, "data", Work(busy=busy), {}, wiring, {}, name, None)


def plan(*nodes: Node) -> Plan:
    recipe = Recipe("r", 0, "cpu", Services(), {}, {}, None, lambda location: "r.yaml:1")
    return Plan(recipe, {one.name: one for one in nodes})


def names(found: list[Node]) -> list[str]:
    return [one.name for one in found]


def test_independent_stages_start_together() -> None:
    found = schedule.startable(plan(node("a"), node("b"), node("c", ("a",))), {}, {}, 2)
    assert names(found) == ["a", "b"]


def test_a_stage_waits_for_its_inputs() -> None:
    dag = plan(node("a"), node("b", ("a",)))
    assert names(schedule.startable(dag, {}, {"a": node("a")}, 4)) == []
    assert names(schedule.startable(dag, {"a"}, {}, 4)) == ["b"]


def test_a_stage_waits_for_cores_and_a_smaller_one_goes_ahead() -> None:
    dag = plan(node("a", busy=2), node("b"))
    assert names(schedule.startable(dag, {}, {"x": node("x")}, 2)) == ["b"]


def test_a_stage_larger_than_the_machine_gets_it_alone() -> None:
    dag = plan(node("a", busy=64), node("b"))
    assert names(schedule.startable(dag, {}, {}, 2)) == ["a"]
    assert names(schedule.startable(dag, {}, {"b": node("b")}, 2)) == []


@st.composite
def dags(draw: st.DrawFn) -> Plan:
    nodes = []
    for index in range(draw(st.integers(1, 8))):
        inputs = draw(st.sets(st.integers(0, index - 1))) if index else set()
        busy = draw(st.integers(1, 4))
        nodes.append(node(f"n{index}", tuple(f"n{one}" for one in sorted(inputs)), busy))
    return plan(*nodes)


@given(dags(), st.integers(1, 4), st.randoms())
def test_every_plan_finishes_within_its_cores(dag: Plan, cores: int, chance: Any) -> None:
    done: set[str] = set()
    running: dict[str, Node] = {}
    while len(done) < len(dag.nodes):
        for one in schedule.startable(dag, done, running, cores):
            assert set(one.inputs.values()) <= done
            running[one.name] = one
        assert running, "nothing runs and nothing can start"
        assert _busy(running, cores) <= cores
        finished = chance.choice(sorted(running))
        del running[finished]
        done.add(finished)


def _busy(running: Mapping[str, Node], cores: int) -> int:
    return sum(min(one.config.cores(), cores) for one in running.values())


def test_only_a_vanished_process_is_tried_again_and_not_for_ever() -> None:
    assert schedule.again(Failure(True, "killed"), 1)
    assert not schedule.again(Failure(True, "killed"), schedule.ATTEMPTS)
    assert not schedule.again(Failure(False, "wrong input"), 1)


@given(st.lists(st.sampled_from(["rl", "sft", "evaluate"]), max_size=8), st.integers(0, 1))
def test_two_rl_stages_never_run_in_one_ray_session(kinds: list[str], running: int) -> None:
    nodes = [replace(node(f"n{at}"), kind=kind) for at, kind in enumerate(kinds)]
    active = {"n0": nodes[0]} if running and nodes else {}
    found = schedule.startable(plan(*nodes), {}, active, 64)
    together = [each.kind for each in (*active.values(), *found)]
    assert together.count("rl") == min(kinds.count("rl"), 1)
    assert together.count("sft") == kinds.count("sft")
