"""A worker claims the job types that it knows, and nothing else: services that share a queue never meet."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import asyncpg

from holdfast.core.commands import NewJob, Submit
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.wiring import create_store
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, World

RARELY_SECONDS = 2 * PATIENCE_SECONDS
"""No poll helps: what happens here happens because of the news."""
JOBS = 30


async def mail() -> None: ...


async def resize() -> None: ...


async def service(world: World, stack: AsyncExitStack, function: object) -> World:
    """A program of its own on the same database, with a worker that knows one type."""
    store = world.store if world.url == "memory://" else await opened(world.url, stack)
    one = World(world.url, store)
    one.handle(function)  # type: ignore[arg-type]
    await stack.enter_async_context(one.worker(poll_seconds=RARELY_SECONDS, concurrency=3))
    return one


async def opened(url: str, stack: AsyncExitStack) -> Store:
    store = create_store(url)
    await store.open()
    stack.push_async_callback(store.close)
    return store


def alternately() -> Iterator[str]:
    for number in range(JOBS):
        yield "mail" if number % 3 else "resize"


async def test_two_services_that_share_a_queue_never_wait_for_each_other(world: World) -> None:
    async with AsyncExitStack() as stack:
        services = [await service(world, stack, function) for function in (mail, resize)]
        one_by_one = [await services[n % 2].submit(job_type) for n, job_type in enumerate(alternately())]
        together = [NewJob(id=uuid4(), type=job_type, payload=Payload.of({})) for job_type in alternately()]
        await world.submit_all(together)
        ids = [*one_by_one, *(job.id for job in together)]
        jobs = [await world.until(job_id) for job_id in ids]
    assert {(job.state, job.attempt, job.lease_version) for job in jobs} == {(State.COMPLETED, 1, 1)}


async def test_a_worker_leaves_what_it_does_not_know_where_it_is(world: World) -> None:
    world.handle(mail)
    foreign = [await world.submit("resize") for _ in range(3)]
    async with world.worker(poll_seconds=0.01):
        await world.until(await world.submit("mail"))
        foreign.append(await world.submit("resize"))
        await world.until(await world.submit("mail"))
    jobs = [await world.job(job_id) for job_id in foreign]
    assert {(job.state, job.lease_version) for job in jobs} == {(State.SCHEDULED, 0)}


async def test_a_handler_that_is_added_while_the_worker_runs_gets_its_jobs(world: World) -> None:
    world.handle(mail)
    async with world.worker(poll_seconds=0.05):
        job_id = await world.submit("resize")
        await world.until(await world.submit("mail"))
        world.handle(resize)
        assert (await world.until(job_id)).state is State.COMPLETED


@on("postgres")
async def test_two_workers_of_one_app_on_one_queue_overlook_no_late_commit(world: World) -> None:
    """Their claims move the same cursors. Nobody announces the commits, and no poll comes to help."""
    world.handle(mail)
    url = world.url + ("&" if "?" in world.url else "?") + "listen=off"
    late: list[UUID] = []
    async with AsyncExitStack() as stack:
        store = await opened(url, stack)
        given = {"store": store, "poll_seconds": RARELY_SECONDS}
        for _ in range(2):
            await stack.enter_async_context(world.worker(**given))
        connection = await asyncpg.connect(world.url)
        stack.push_async_callback(connection.close)
        for _ in range(3):
            async with connection.transaction():
                job = NewJob(id=uuid4(), type="mail", payload=Payload.of({}))
                await store.submit([Submit(jobs=(job,))], connection=connection)
                for _ in range(10):
                    done = NewJob(id=uuid4(), type="mail", payload=Payload.of({}))
                    await store.submit([Submit(jobs=(done,))])
                    await world.until(done.id)
                    await asyncio.sleep(0.02)
            late.append(job.id)
        assert {(await world.until(job_id)).state for job_id in late} == {State.COMPLETED}
