"""A store that is away, or whose answers are lost: nothing is lost, nothing runs twice without need."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import NewJob, Tick
from holdfast.core.errors import ConfigError, Unavailable
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.stores.postgres import migrate
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault
from holdfast.worker.context import Context
from tests.integration.postgres.databases import opened
from tests.integration.worker.world import SOON, World, eventually
from tests.servers.postgres import PostgresServer

FAILING = [
    *product(("claim", "settle", "report"), FaultKind),
    # One that goes on beside the caller would go on for ever.
    *product(("news",), (FaultKind.BEFORE_WRITE, FaultKind.AFTER_COMMIT)),
]


@pytest.mark.parametrize(("verb", "kind"), FAILING)
async def test_a_call_that_fails_is_repeated_and_every_job_runs_once(world: World, verb: str, kind: FaultKind) -> None:
    runs: list[UUID] = []

    async def note(ctx: Context) -> None:
        runs.append(ctx.job_id)
        ctx.progress(50)
        await ctx.checkpoint("here")

    world.handle(note)
    faulty = FaultyStore(world.store, [PlannedFault(verb, kind, call) for call in (1, 2, 4)])
    await world.submit_all([NewJob(id=uuid4(), type="note", retry=SOON) for _ in range(30)])
    async with world.worker(store=faulty, concurrency=4):
        counts = await world.until_all_ended()
        await faulty.under_way()
    assert counts == {State.COMPLETED: 30}
    if not (verb == "claim" and kind is FaultKind.TIMEOUT):
        assert len(runs) == 30
    else:
        # The claim that went on alone may have leased jobs to nobody: they come back, without an attempt.
        assert set(runs) == {UUID(int=run.int) for run in runs}
        assert len(set(runs)) == 30


async def test_an_outcome_waits_for_a_store_that_is_away(world: World) -> None:
    ran = asyncio.Event()

    async def note() -> str:
        ran.set()
        return "kept"

    world.handle(note)
    faulty = FaultyStore(world.store, [PlannedFault("settle", FaultKind.BEFORE_WRITE, call) for call in range(1, 5)])
    job_id = await world.submit("note")
    async with world.worker(store=faulty):
        await ran.wait()
        job = await world.until(job_id)
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, b'"kept"', 1)


async def test_a_database_that_is_killed_and_comes_back_loses_nothing(private_postgres: PostgresServer) -> None:
    """Down for longer than the worker timeout, with jobs running and jobs waiting."""
    url = private_postgres.url()
    await migrate.upgrade(url)
    async with opened(url) as store:
        world = World(url, store)
        started, go_on = asyncio.Event(), asyncio.Event()
        ended: list[UUID] = []

        async def work(ctx: Context) -> None:
            started.set()
            await go_on.wait()
            ended.append(ctx.job_id)

        world.handle(work)
        jobs = [NewJob(id=uuid4(), type="work", retry=SOON) for _ in range(12)]
        await world.submit_all(jobs)
        async with world.worker(concurrency=4, tick=Tick(worker_timeout_seconds=0.5)):
            await started.wait()
            private_postgres.kill9()
            await asyncio.sleep(1.0)  # the outage
            go_on.set()
            await asyncio.to_thread(private_postgres.start)
            await until_back(store)
            counts = await world.until_all_ended()
    assert counts == {State.COMPLETED: 12}
    assert set(ended) == {job.id for job in jobs}


async def until_back(store: Store) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.read_queues()
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


class OutOfOrder(FaultyStore):
    """Raises what no store should, for the first calls of a verb."""

    def __init__(self, store: Store, verb: str, error: Exception) -> None:
        super().__init__(store)
        self.left = 2
        self.verb = verb
        self.error = error

    async def _do(self, verb: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if verb == self.verb and self.left:
            self.left -= 1
            raise self.error
        return await super()._do(verb, call)


@pytest.mark.parametrize("error", [TypeError("a bug"), ConfigError("read-only")], ids=["bug", "config"])
@pytest.mark.parametrize("verb", ["settle", "heartbeat", "tick"])
async def test_an_unexpected_error_costs_no_outcome_and_stops_no_part(
    world: World, verb: str, error: Exception
) -> None:
    async def note() -> str:
        return "kept"

    world.handle(note)
    faulty = OutOfOrder(world.store, verb, error)
    async with world.worker(store=faulty, create_pulse_store=None) as worker:
        job = await world.until(await world.submit("note"))
        await eventually(lambda: not faulty.left)
        (before,) = [one for one in await world.store.read_workers() if one.id == worker.id]
        async with asyncio.timeout(60):
            while [one for one in await world.store.read_workers() if one.seen_at > before.seen_at] == []:
                await asyncio.sleep(0.01)
        # The tick goes on, too.
        assert (await world.until(await world.submit("note", delay_seconds=0.05))).state is State.COMPLETED
    assert (job.state, job.result) == (State.COMPLETED, b'"kept"')
