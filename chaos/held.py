"""Faults of callers with transactions of their own: those that stay open for long, and those that commit late.

Nobody else may suffer. On PostgreSQL a row that such a transaction holds delays its own job alone. On SQLite it holds
the whole file, and nobody can write: there the outage rule is what is tried, with submits only.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final
from uuid import UUID

from chaos import scale, second
from chaos.app import in_thread, on_loop
from chaos.caller import BROKEN, PostgresCaller, SQLiteCaller
from chaos.databases import Away, SQLiteDatabase
from chaos.history import Trouble
from chaos.world import World
from holdfast.core.commands import NewJob

DEPENDENCIES: Final = 3
LATE_JOBS: Final = 8
LATE_DELAY_SECONDS: Final = (0.2, 3.0)
POLL_SECONDS: Final = 0.05
CHOICE_SECONDS: Final = 20.0

Work = Callable[[], Awaitable[None]]


async def hold_transaction(world: World, rng: Random) -> str:
    """One submits what waits for running jobs, one submits with a key, one cancels. Then they do something else."""
    seconds, key, commits = rng.uniform(*scale.HELD_SECONDS), f"held-{rng.getrandbits(48):x}", rng.random() < 0.6
    if isinstance(world.database, SQLiteDatabase):
        return await _hold_file(world, seconds=seconds, key=key, is_committed=commits)
    running = await _newest(world, "running", DEPENDENCIES + 1)
    ready = await _newest(world, "ready", 1)
    cancelled = ready[0] if ready and rng.random() < 0.5 else running[0]
    await _all_of(
        lambda: _submit_after(world, running[1:], seconds=seconds, is_committed=commits),
        lambda: _submit_with_key(world, key, seconds=seconds, is_committed=not commits),
        lambda: _cancel(world, cancelled, seconds=seconds, is_committed=rng.random() < 0.6),
    )
    return f"three transactions for {seconds:.1f} s"


async def commit_late(world: World, rng: Random) -> str:
    delays = [rng.uniform(*LATE_DELAY_SECONDS) for _ in range(LATE_JOBS)]
    jobs = [
        *(on_loop.call().new_job() for _ in range(LATE_JOBS)),
        *(second.second_on_loop.call().new_job() for _ in range(LATE_JOBS)),
        *(in_thread.options(delay=delay).call().new_job() for delay in delays),
    ]
    rng.shuffle(jobs)
    await _all_of(lambda: _submit(world, jobs, seconds=scale.LATE_COMMIT_SECONDS, is_committed=True))
    return f"{len(jobs)} jobs {scale.LATE_COMMIT_SECONDS:.0f} s late"


# transactions


async def _submit_after(world: World, running: Sequence[UUID], *, seconds: float, is_committed: bool) -> None:
    jobs = [on_loop.options(after=list(running)).call().new_job()]
    with _locked(world, running):
        await _submit(world, jobs, seconds=seconds, is_committed=is_committed)


async def _submit_with_key(world: World, key: str, *, seconds: float, is_committed: bool) -> None:
    """While it is open, others ask for the same key; afterwards there is one job for all."""
    repeats = asyncio.create_task(_repeat_key(world, key, seconds=seconds))
    try:
        await _submit(world, [on_loop.options(key=key).call().new_job()], seconds=seconds, is_committed=is_committed)
    finally:
        await repeats


async def _repeat_key(world: World, key: str, *, seconds: float) -> None:
    for wait_seconds in (seconds / 3, seconds):
        await asyncio.sleep(wait_seconds)
        try:
            await _submit(world, [on_loop.options(key=key).call().new_job()], seconds=0.0, is_committed=True)
        except BROKEN:
            continue  # it may not be answered while the key is somebody's


async def _submit(world: World, jobs: Sequence[NewJob], *, seconds: float, is_committed: bool) -> None:
    key = jobs[0].key
    number = world.callers.begin("try", [job.id for job in jobs], key)
    async with PostgresCaller.opened(world.database.url) as caller:
        answered = await caller.submit(jobs)
        await asyncio.sleep(seconds)
        await caller.end(is_committed=is_committed)
    world.callers.end(number, is_committed=is_committed, answered=answered if key and is_committed else ())


async def _cancel(world: World, job_id: UUID, *, seconds: float, is_committed: bool) -> None:
    number = world.callers.begin("cancel", [job_id])
    with _locked(world, [job_id]):
        async with PostgresCaller.opened(world.database.url) as caller:
            is_anything = await caller.cancel(job_id)
            await asyncio.sleep(seconds)
            await caller.end(is_committed=is_committed)
    if is_anything:
        world.callers.end(number, is_committed=is_committed)


@contextmanager
def _locked(world: World, job_ids: Sequence[UUID]) -> Iterator[None]:
    began_at = time.monotonic()
    try:
        with world.excuses.locked(job_ids):
            yield
    finally:
        ended_at = time.monotonic()
        trouble = Trouble(fault="held-transaction", began_at=began_at, ended_at=ended_at, locked=tuple(job_ids))
        world.troubles.append(trouble)


async def _hold_file(world: World, *, seconds: float, key: str, is_committed: bool) -> str:
    database = world.database
    assert isinstance(database, SQLiteDatabase)
    running = await _newest(world, "running", DEPENDENCIES)
    jobs = [on_loop.options(after=running).call().new_job()]
    keyed = [on_loop.options(key=key).call().new_job()]
    number = world.callers.begin("try", [jobs[0].id])
    keyed_number = world.callers.begin("try", [keyed[0].id], key)
    try:
        with world.excuses.away():
            async with SQLiteCaller.opened(database.path, now=database.now) as caller:
                await caller.submit(jobs)
                answered = await caller.submit(keyed)
                await asyncio.sleep(seconds)
                await caller.end(is_committed=is_committed)
    except BROKEN as error:
        raise TimeoutError("another fault was first") from error
    world.callers.end(number, is_committed=is_committed)
    world.callers.end(keyed_number, is_committed=is_committed, answered=answered if is_committed else ())
    return f"the file for {seconds:.1f} s"


# choosing


async def _newest(world: World, place: str, count: int) -> list[UUID]:
    """Those that have just begun: they run for a while yet."""
    wanted = count if place == "running" else 0
    async with asyncio.timeout(CHOICE_SECONDS):
        while True:
            try:
                found = await asyncio.to_thread(world.database.newest, place, count)
            except Away:
                found = []
            if len(found) >= wanted:
                return found
            await asyncio.sleep(POLL_SECONDS)


async def _all_of(*work: Work) -> None:
    """TimeoutError, so that it is tried again, where another fault has ended one of them."""
    results = await asyncio.gather(*(one() for one in work), return_exceptions=True)
    for result in results:
        if isinstance(result, BROKEN):
            raise TimeoutError("another fault was first") from result
        if isinstance(result, BaseException):
            raise result
