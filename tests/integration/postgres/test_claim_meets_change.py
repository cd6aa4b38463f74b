"""A row that changes between a claim's snapshot and its locks."""

import asyncio

import pytest

from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.testing.factories import after, claim, new_job, register, submit_jobs
from tests.conftest import NewDatabase
from tests.integration.postgres.databases import LONG_SECONDS, connected, opened

LOCK = 4711
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
COMMIT_MODE = "set_config('synchronous_commit', 'off', true) AS commit_mode"


def stop_after_snapshot(store: PostgresStore) -> None:
    """Claims wait for the lock once they have begun, and before they look for jobs."""
    statements = store._database.sql
    text = statements["claim.lease"]
    waiting = text.replace(COMMIT_MODE, f"{COMMIT_MODE}, pg_advisory_xact_lock({LOCK})::text AS waited")
    assert waiting != text
    statements._texts["claim.lease"] = waiting


@pytest.mark.parametrize("changed", [0, 1, 2])
async def test_a_job_that_changes_under_a_claim_is_left_for_the_next(new_database: NewDatabase, changed: int) -> None:
    url = new_database()
    await migrate.upgrade(url)
    async with opened(url) as store, opened(url) as other, connected(url) as lock:
        worker = await register(store)
        jobs = [new_job() for _ in range(3)]
        await submit_jobs(store, *jobs)
        stop_after_snapshot(store)
        await lock.execute("SELECT pg_advisory_lock($1)", LOCK)
        claiming = asyncio.create_task(claim(store, worker, limit=3))
        async with asyncio.timeout(LONG_SECONDS):
            while not await lock.fetchval(WAITING, LOCK):
                await asyncio.sleep(0.01)
        await submit_jobs(other, new_job(dependencies=after(jobs[changed].id)))
        await lock.execute("SELECT pg_advisory_unlock($1)", LOCK)
        claimed = await claiming
        left = [job.id for n, job in enumerate(jobs) if n != changed]
        assert [job.id for job in claimed] == left
        assert len({job.started_at for job in claimed}) == 1
        states = [job.state for job in await store.read([job.id for job in jobs]) if job is not None]
        assert [state is State.RUNNING for state in states] == [n != changed for n in range(3)]
        assert [job.id for job in await claim(store, worker, limit=3)] == [jobs[changed].id]
