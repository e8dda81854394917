"""When a worker has to go, decided without one."""

import asyncio
from collections.abc import Iterator

import pytest

from rewards.job import Job
from rewards.process import Usage
from rewards.schema import Item
from rewards.watch import PATIENCE, Limits, Watch
from rewards.worker import Worker

LIMITS = Limits(deadline=10.0, checks=100, growth=1000)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that has been at one check since the time 0."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    async def make() -> Worker:
        return Worker(lambda: None)

    made = loop.run_until_complete(make())
    made.assigned.append(Job(Item(id="i", verifier="v", response="")))
    yield made
    loop.close()


def late(worker: Worker, *looks: tuple[float, float | None]) -> list[bool]:
    """Whether it is late at each of `looks`: the clock, and the CPU time its process has used."""
    watch = Watch(LIMITS, None)
    return [
        watch.late(worker, None if cpu is None else Usage(cpu, 0), now) is not None
        for now, cpu in looks
    ]


def test_a_busy_check_is_late_after_the_deadline(worker: Worker) -> None:
    assert late(worker, (0, 5), (9, 14), (10, 15), (10.1, 15.1)) == [False, False, False, True]


def test_a_starved_check_is_given_its_time(worker: Worker) -> None:
    """Half a core: the deadline is reached after twice as long."""
    looks = [(now, 5 + now / 2) for now in (0, 10, 11, 17, 19, 20)]
    assert late(worker, *looks) == [False, False, False, False, False, True]


def test_a_sleeping_check_is_late_in_the_end(worker: Worker) -> None:
    end = PATIENCE * LIMITS.deadline
    assert late(worker, (0, 5), (end - 1, 5), (end, 5), (end, 5)) == [False, False, False, True]


def test_without_procfs_the_clock_counts(worker: Worker) -> None:
    assert late(worker, (0, None), (10, None), (10, None)) == [False, False, True]


def test_the_next_check_has_its_own_time(worker: Worker) -> None:
    watch = Watch(LIMITS, None)
    assert watch.late(worker, Usage(0, 0), 10) is None
    worker.assigned[0], worker.since = Job(Item(id="j", verifier="v", response="")), 10
    assert [watch.late(worker, Usage(cpu, 0), 10 + cpu) for cpu in (10, 18, 20)] == [None] * 3
    assert watch.late(worker, Usage(20, 0), 20) is not None


def test_a_worker_is_worn_by_checks_or_growth(worker: Worker) -> None:
    watch = Watch(LIMITS, Usage(0, 5000))
    assert not watch.worn(worker, Usage(0, 6000))
    assert watch.worn(worker, Usage(0, 6001))
    worker.checks = 100
    assert watch.worn(worker, Usage(0, 5000))
    assert watch.worn(worker, None)
