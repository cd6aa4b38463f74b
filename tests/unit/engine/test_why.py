"""The sentence for what is hard to come by with verbs: every one of them is whole, and one line."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core import limits
from holdfast.core.commands import Place, WorkerInfo
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category, Failure
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.core.why import Facts, explain
from holdfast.engine.why import gather, why
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.factories import claim, job_in_state, new_job, register, running_job, submit_jobs, submit_one

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PARENTS = [UUID(int=n) for n in range(1, 6)]


def new_store() -> MemoryStore:
    return MemoryStore(clock=ManualClock(NOON))


async def facts_of(state: State, **changes: Any) -> Facts:
    """Of a job in that state, with a worker that serves everything."""
    store = new_store()
    await register(store)
    facts = await gather(store, await job_in_state(store, state, queue="q"))
    job_changes = {name: changes.pop(name) for name in list(changes) if name in Job.__slots__}
    return replace(facts, job=replace(facts.job, **job_changes), **changes)


def waits(*states: State, kind: DependencyKind = DependencyKind.AFTER) -> list[tuple[Dependency, State]]:
    return [(Dependency(job_id, kind), state) for job_id, state in zip(PARENTS, states, strict=False)]


async def test_an_error_of_many_lines_is_told_in_one() -> None:
    failure = Failure(category=Category.TEMPORARY, error_type="OSError", message="first\n  second\r\n" + "x" * 500)
    said = explain(await facts_of(State.RETRYING, last_failure=failure))
    assert "failed: TEMPORARY: OSError: first second xxx" in said
    assert "…; it is due at 2026-05-01 12:01:00 UTC, in 1 min." in said
    assert len(said) < 400


async def test_an_error_without_a_message_is_told_by_its_category() -> None:
    said = explain(await facts_of(State.FAILED, failure=Failure(category=Category.PERMANENT)))
    assert "after 1 attempt (PERMANENT); run it again" in said


@pytest.mark.parametrize(("ahead", "expected"), [(1, "1 job stands"), (limits.MAX_PLACE_JOBS, "at least 10000 jobs")])
async def test_jobs_ahead_are_counted(ahead: int, expected: str) -> None:
    place = Place(now=NOON, paused_at=None, ahead=ahead)
    assert expected in explain(await facts_of(State.SCHEDULED, place=place))


async def test_many_dependencies_are_counted_not_listed() -> None:
    said = explain(await facts_of(State.PENDING, waits_for=waits(*[State.SCHEDULED] * 5)))
    assert said.endswith(f"{PARENTS[2]} (SCHEDULED) and 2 more.")
    assert "5 of 5 jobs" in said


async def test_both_kinds_of_dependencies_are_named() -> None:
    either = [(Dependency(PARENTS[4], DependencyKind.AFTER_ANY), State.RUNNING)]
    said = explain(await facts_of(State.PENDING, waits_for=[*waits(State.RUNNING), *either]))
    assert said == (
        f"It waits for this job to complete: {PARENTS[0]} (RUNNING), and for the first of these to end: "
        f"{PARENTS[4]} (RUNNING)."
    )


async def test_a_dependency_that_is_dead_is_named_before_the_others() -> None:
    said = explain(await facts_of(State.PENDING, waits_for=waits(State.RUNNING, State.FAILED)))
    assert (
        said == f"It will not run: its dependency {PARENTS[1]} ended FAILED, and the next tick ends this job so, too."
    )


async def test_a_job_whose_dependencies_are_over_waits_for_a_tick() -> None:
    over = await facts_of(State.PENDING, waits_for=waits(State.COMPLETED, State.COMPLETED))
    assert explain(over) == "What it waited for has ended, and the next tick releases it."
    assert "nobody ticks" in explain(replace(over, workers=()))
    met = [*waits(State.FAILED, State.RUNNING, kind=DependencyKind.AFTER_ANY)]
    assert "next tick releases it" in explain(replace(over, waits_for=met))


async def test_what_is_due_where_nobody_ticks_needs_a_worker() -> None:
    said = explain(await facts_of(State.DELAYED, due_at=NOON, workers=()))
    assert said.startswith(
        "It is due since 2026-05-01 12:00:00 UTC, and the next tick makes it claimable; but no worker"
    )


async def test_a_job_whose_type_nobody_knows_says_so_while_it_is_delayed() -> None:
    """A worker that met it has handed it back, due later."""
    workers = [await worker_of(types=("send",))]
    said = explain(await facts_of(State.DELAYED, workers=workers))
    assert "besides, no live worker of queue 'q' has a handler for its type 'example'" in said


async def worker_of(**changes: Any) -> WorkerInfo:
    store = new_store()
    await register(store)
    (worker,) = await store.read_workers()
    return replace(worker, **changes)


async def test_a_running_job_tells_what_becomes_of_its_lease() -> None:
    facts = await facts_of(State.RUNNING)
    assert explain(facts).endswith(
        "by worker 'worker', since 2026-05-01 12:00:00 UTC, leased until 2026-05-01 12:05:00 UTC."
    )
    late = Place(now=NOON + timedelta(minutes=5), paused_at=None, ahead=None)
    assert "its lease ended at 2026-05-01 12:05:00 UTC" in explain(replace(facts, place=late))
    lost = [replace(worker, is_lost=True) for worker in facts.workers]
    assert "that worker is lost" in explain(replace(facts, workers=lost))
    asked = replace(facts, job=replace(facts.job, cancel_requested=True))
    assert explain(asked).endswith("; it was asked to stop.")
    assert facts.job.lease is not None
    assert f"by worker {facts.job.lease.owner}," in explain(replace(facts, workers=()))


async def test_a_cancelled_dependent_names_its_dependency() -> None:
    said = explain(await facts_of(State.CANCELLED, ended_by=PARENTS[0]))
    assert said == f"It ended CANCELLED at 2026-05-01 12:00:00 UTC because its dependency {PARENTS[0]} did."


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.2, "1 s"), (59, "59 s"), (250, "4 min 10 s"), (7500, "2 h 5 min"), (90061, "1 d 1 h")]
)
async def test_a_time_is_told_in_two_units(seconds: float, expected: str) -> None:
    due = await facts_of(State.DELAYED, due_at=NOON + timedelta(seconds=seconds))
    assert f", in {expected}." in explain(due)


class MovingStore(MemoryStore):
    """Between the two reads of a question the job is claimed, and handed back, for as often as asked."""

    def __init__(self, moves: int) -> None:
        super().__init__(clock=ManualClock(NOON))
        self._moves = moves
        self.asked = 0

    async def read_place(self, job_id: UUID) -> Place | None:
        self.asked += 1
        place = await super().read_place(job_id)
        if place is not None and self.asked <= self._moves:
            return replace(place, ahead=None)
        return place


@pytest.mark.parametrize(("moves", "asked"), [(0, 1), (1, 2), (2, 3), (100, 3)])
async def test_a_job_that_moves_while_it_is_asked_about_is_asked_again(moves: int, asked: int) -> None:
    store = MovingStore(moves)
    await register(store)
    job_id = await submit_one(store, queue="q")
    assert "next one in queue 'q'" in await why(store, job_id)
    assert store.asked == asked


async def test_many_dependencies_are_read_a_few_at_a_time() -> None:
    store = new_store()
    parents = [new_job(id=uuid4()) for _ in range(120)]
    await submit_jobs(store, *parents)
    job_id = await submit_one(store, dependencies=tuple(Dependency(parent.id) for parent in parents))
    assert "120 of 120 jobs" in await why(store, job_id)
    await claim(store, (await running_job(store)).lease.owner, limit=1)
    assert "120 of 120 jobs" in await why(store, job_id)
