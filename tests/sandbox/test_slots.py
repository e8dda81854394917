"""Places and the desk with slots that fail on purpose: the rest of the code is the real one."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sandbox import desk as desks
from sandbox.desk import Conflict, Desk, Overloaded
from sandbox.judging.execution import Executor
from sandbox.languages import BUILT_IN, LARGEST_BINARY
from sandbox.metrics import Metrics
from sandbox.schema import CallSubmission, CallTest, Result, StdioSubmission, StdioTest, Submission
from sandbox.slots import Place, Pool
from sandbox.tiers import Ending, NotOffered, Program, Run, SlotLost, Talk

Behaviour = Callable[[Program], Run]


def ran(
    ending: Ending = "exited", stdout: bytes = b"1", cpu: float = 0.0, wall: float = 0.0
) -> Run:
    code = 0 if ending == "exited" else None
    return Run(ending, code, None, stdout, b"", wall, cpu, None)


class Stage:
    """A tier whose slots do what the test says."""

    name = "stage"

    def __init__(self, *deeds: Run | SlotLost) -> None:
        self.deeds = list(deeds)
        self.made = self.closed = self.running = self.most = self.runs = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.makes_slots = True

    async def slot(self) -> "Slot":
        if not self.makes_slots:
            raise SlotLost("start", "none today")
        self.made += 1
        return Slot(self)

    def enforces(self) -> Mapping[str, str]:
        return {}


class Slot:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def run(self, program: Program, talk: Talk | None = None) -> Run:
        self.stage.runs += 1
        self.stage.running += 1
        self.stage.most = max(self.stage.most, self.stage.running)
        try:
            await self.stage.gate.wait()
            await asyncio.sleep(0)
        finally:
            self.stage.running -= 1
        deed = self.stage.deeds.pop(0) if self.stage.deeds else ran()
        if isinstance(deed, SlotLost):
            raise deed
        return deed

    async def close(self) -> None:
        self.stage.closed += 1


LOST = SlotLost("died", "killed by the test")


def submission(name: str = "s", tests: int = 1, **more: Any) -> StdioSubmission:
    listed = [StdioTest(expected="1")] * tests
    return StdioSubmission(id=name, mode="stdio", code="print(1)", tests=listed, **more)


def judged(stage: Stage, *handed_in: StdioSubmission, slots: int = 2) -> Sequence[Result]:
    async def judge() -> Sequence[Result]:
        async with Pool(stage, slots, Metrics()) as pool:
            executor = Executor(pool, BUILT_IN)
            return await asyncio.gather(*map(executor.execute, handed_in))

    return asyncio.run(judge())


def test_a_lost_slot_is_replaced_and_the_run_retried() -> None:
    stage = Stage(LOST)
    (result,) = judged(stage, submission())
    assert (result.verdict, result.reward) == ("OK", 1)
    assert (stage.made, stage.closed) == (2, 2)


def test_a_slot_lost_twice_is_our_fault_and_no_reward() -> None:
    (result,) = judged(Stage(LOST, LOST), submission())
    assert (result.verdict, result.reward, result.retryable) == ("IE", None, True)
    assert result.tests[0].detail == "died: killed by the test"


def test_our_fault_outweighs_a_failed_test() -> None:
    (result,) = judged(Stage(ran(stdout=b"2"), LOST, LOST), submission(tests=2), slots=1)
    assert [test.verdict for test in result.tests] == ["WA", "IE"]
    assert (result.verdict, result.reward) == ("IE", None)


def test_a_pool_that_lacks_a_slot_is_not_offered_and_leaves_none_behind() -> None:
    class Scarce(Stage):
        async def slot(self) -> "Slot":
            if self.made:
                raise SlotLost("start", "none today")
            made = await super().slot()
            await asyncio.sleep(0.01)
            return made

    stage = Scarce()
    with pytest.raises(NotOffered, match="stage makes no slot: none today; see `posttrain sandbox"):
        judged(stage, submission(), slots=3)
    assert (stage.made, stage.closed) == (1, 1)


@pytest.mark.parametrize(("size", "verdict"), [(LARGEST_BINARY, "OK"), (LARGEST_BINARY + 1, "CE")])
def test_a_binary_has_a_bound(size: int, verdict: str) -> None:
    compiled = replace(ran(), kept={"main": bytes(size)})
    (result,) = judged(Stage(compiled), submission(language="c"))
    assert result.verdict == verdict, result


def test_a_starved_program_is_run_again_alone() -> None:
    """It had half a second of CPU in three of wall time: another process was in its way."""
    slow = ran("wall", cpu=0.5, wall=3.0)
    stage = Stage(slow, ran())
    (result,) = judged(stage, submission(limits={"cpu_s": 1.0, "wall_s": 3.0}))
    assert (result.verdict, result.tests[0].reruns) == ("OK", 1)
    (result,) = judged(Stage(slow, slow), submission(limits={"cpu_s": 1.0, "wall_s": 3.0}))
    assert (result.verdict, result.tests[0].reruns) == ("TLE", 1)


def test_a_rerun_has_all_places_to_itself() -> None:
    stage = Stage(ran("wall", cpu=0.5, wall=3.0))
    limits = {"cpu_s": 1.0, "wall_s": 3.0}
    results = judged(stage, *(submission(str(at), 3, limits=limits) for at in range(4)), slots=3)
    assert [result.verdict for result in results] == ["OK"] * 4
    assert sum(test.reruns for result in results for test in result.tests) == 1


@pytest.mark.parametrize("run", [ran("cpu", cpu=1.0, wall=1.1), ran("wall", cpu=0.01, wall=3.0)])
def test_what_had_its_time_or_slept_is_not_run_again(run: Run) -> None:
    (result,) = judged(Stage(run), submission(limits={"cpu_s": 1.0, "wall_s": 3.0}))
    assert (result.verdict, result.tests[0].reruns) == ("TLE", 0)


def test_stop_on_fail_ends_at_the_first_failure() -> None:
    (result,) = judged(Stage(ran(), ran(stdout=b"2")), submission(tests=5, stop_on_fail=True))
    assert [test.verdict for test in result.tests] == ["OK", "WA"]
    assert (result.verdict, result.reward, result.total) == ("WA", 0, 5)


def test_places_go_by_order_of_arrival() -> None:
    """One who needs both places is not overtaken by those who need one."""

    async def order() -> list[str]:
        served: list[str] = []
        async with Pool(Stage(), 2, Metrics()) as pool:

            async def take(name: str, count: int) -> None:
                async def job(places: Sequence[Place]) -> None:
                    served.append(name)
                    assert len(places) == count
                    await asyncio.sleep(0.01)

                await pool.use(count, job)

            names = (("a", 1), ("both", 2), ("c", 1), ("d", 1))
            await asyncio.gather(*(take(*each) for each in names))
        return served

    assert asyncio.run(order()) == ["a", "both", "c", "d"]


def test_who_stops_waiting_takes_no_place_along() -> None:
    async def leave() -> None:
        stage = Stage()
        async with Pool(stage, 2, Metrics()) as pool:
            stage.gate.clear()
            executor = Executor(pool, BUILT_IN)
            tasks = [asyncio.create_task(executor.execute(submission(str(at)))) for at in range(9)]
            await asyncio.sleep(0.01)
            for task in tasks[::2]:
                task.cancel()
            stage.gate.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(result, Result) for result in results] == [False, True] * 4 + [False]
            assert stage.running == 0
            assert (await executor.execute(submission("last"))).reward == 1

    asyncio.run(leave())


def test_a_tier_that_makes_no_slots_is_not_ready() -> None:
    async def start() -> None:
        stage = Stage(LOST, LOST, LOST, LOST)
        pool = Pool(stage, 1, Metrics())
        async with pool:
            stage.makes_slots = False
            executor = Executor(pool, BUILT_IN)
            for at in range(3):
                assert (await executor.execute(submission(str(at)))).verdict == "IE"
            assert not pool.ready
            stage.makes_slots, stage.deeds = True, []
            assert (await executor.execute(submission("after"))).verdict == "OK"
            assert pool.ready

    asyncio.run(start())


@pytest.mark.parametrize(
    "deeds", [[SlotLost("silent", "hangs")] * 2, [LOST] * 6], ids=["hang", "break"]
)
def test_a_pool_whose_slots_all_hang_or_break_is_not_ready_until_one_runs(
    deeds: list[SlotLost],
) -> None:
    async def start() -> None:
        stage = Stage(*deeds)
        async with Pool(stage, 2, Metrics()) as pool:
            executor = Executor(pool, BUILT_IN)
            for at in range(len(deeds) // 2):
                assert pool.ready
                assert (await executor.execute(submission(str(at)))).verdict == "IE"
            assert not pool.ready
            pool.try_all()
            pool.try_all()
            async with asyncio.timeout(10):
                while not pool.ready:
                    await asyncio.sleep(0)
            assert stage.most == 2

    asyncio.run(start())


def desk(stage: Stage, room: int = 8) -> Callable[[Callable[[Desk], Any]], None]:
    def play(scene: Callable[[Desk], Any]) -> None:
        async def whole() -> None:
            async with Pool(stage, 2, Metrics()) as pool:
                opened = Desk(Executor(pool, BUILT_IN), Metrics(), room)
                await scene(opened)
                await opened.close()

        asyncio.run(whole())

    return play


def test_the_same_submission_is_judged_once() -> None:
    stage = Stage()

    async def scene(desk: Desk) -> None:
        results = await asyncio.gather(*(desk.result(submission()) for _ in range(5)))
        assert results[0].reward == 1
        again = await desk.result(submission())
        assert all(result == results[0] for result in [*results, again])
        with pytest.raises(Conflict):
            await desk.result(submission(tests=2))

    desk(stage)(scene)
    assert stage.runs == 1


@pytest.mark.parametrize("other", [1.0, True])
def test_another_submission_is_told_by_1_and_true_and_a_fraction(other: Any) -> None:
    def called(value: Any) -> CallSubmission:
        tests = [CallTest(args=[value], expected=1)]
        return CallSubmission(id="s", mode="function", code="", function="f", tests=tests)

    async def scene(desk: Desk) -> None:
        first = await desk.result(called(1))
        assert await desk.result(called(1)) == first
        with pytest.raises(Conflict):
            await desk.result(called(other))

    desk(Stage())(scene)


def test_a_kept_result_does_not_keep_its_submission() -> None:
    async def scene(desk: Desk) -> None:
        handed_in = submission()
        result = await desk.result(handed_in)
        seen = weakref.ref(handed_in)
        del handed_in
        gc.collect()
        assert seen() is None
        assert await desk.result(submission()) == result

    stage = Stage()
    desk(stage)(scene)
    assert stage.runs == 1


def test_a_late_result_does_not_remove_who_has_its_id_now() -> None:
    """The first was given up but came to its end; the second's entry had its name by then."""

    class Stubborn(Executor):
        def __init__(self) -> None:
            self.gates: list[asyncio.Event] = []

        async def execute(self, submission: Submission) -> Result:
            self.gates.append(asyncio.Event())
            try:
                await self.gates[-1].wait()
            except asyncio.CancelledError:
                await self.gates[0].wait()
            return Result(id="s", verdict="IE", reward=None, retryable=True, tier="stage", total=1)

    async def scene() -> None:
        executor = Stubborn()
        desk = Desk(executor, Metrics(), 8)
        given_up = asyncio.create_task(desk.result(submission()))
        await asyncio.sleep(0.01)
        given_up.cancel()
        await asyncio.sleep(0.01)
        second = asyncio.create_task(desk.result(submission()))
        await asyncio.sleep(0.01)
        executor.gates[0].set()
        await asyncio.sleep(0.01)
        third = asyncio.create_task(desk.result(submission()))
        await asyncio.sleep(0.01)
        assert len(executor.gates) == 2
        executor.gates[1].set()
        assert await second is await third

    asyncio.run(scene())


def test_our_fault_may_be_asked_again() -> None:
    async def scene(desk: Desk) -> None:
        assert (await desk.result(submission())).verdict == "IE"
        assert (await desk.result(submission())).verdict == "OK"

    desk(Stage(LOST, LOST))(scene)


def test_there_is_room_for_so_many() -> None:
    stage = Stage()

    async def scene(desk: Desk) -> None:
        stage.gate.clear()
        tasks = [asyncio.create_task(desk.result(submission(str(at)))) for at in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await desk.result(submission("third"))
        stage.gate.set()
        assert [result.reward for result in await asyncio.gather(*tasks)] == [1, 1]
        assert (await desk.result(submission("third"))).reward == 1

    desk(stage, room=2)(scene)


def test_what_nobody_waits_for_is_given_up() -> None:
    stage = Stage()

    async def scene(desk: Desk) -> None:
        stage.gate.clear()
        first, second = (asyncio.create_task(desk.result(submission())) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        assert stage.running == 1
        second.cancel()
        await asyncio.sleep(0.01)
        assert (stage.running, desk.under_way) == (0, 0)

    desk(stage)(scene)


def test_old_results_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()

    async def scene(desk: Desk) -> None:
        results = [await desk.result(submission(str(at))) for at in range(3)]
        size = len(results[0].model_dump_json())
        assert [await desk.result(submission(str(at))) for at in (2, 0)] == [results[2], results[0]]
        assert stage.runs == 3
        monkeypatch.setattr(desks, "KEPT", 3 * size)
        await desk.result(submission("3"))
        assert await desk.result(submission("2")) == results[2]
        assert stage.runs == 4
        await desk.result(submission("0"))
        assert stage.runs == 5

    desk(stage)(scene)
