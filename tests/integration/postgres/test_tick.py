"""What a tick finds whatever else happens, and what it costs when there is nothing to find."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Heartbeat, Submit, Tick
from holdfast.core.job import Timeouts
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.sweeps import (
    FULL_SWEEP_SECONDS,
    RETENTION_AGAIN_SECONDS,
    RETENTION_LOOKS,
    RETENTION_REST_SECONDS,
    Sweeps,
    Tally,
)
from holdfast.testing import ManualClock
from holdfast.testing.factories import (
    after,
    new_job,
    read_counts,
    read_state,
    register,
    running_job,
    settle,
    submit_jobs,
    submit_one,
    tick,
)
from tests.integration.postgres.databases import connected, fetch, opened

DAY = 24 * 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timed(url: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    """A store with one connection, whose clock is the test's."""
    async with opened(url, clock=clock, listen=False, pool_size=1) as store:
        yield store


async def test_a_server_that_started_while_its_clock_was_ahead_hides_no_dead_worker(url: str) -> None:
    clock = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    async with opened(url, clock=clock, listen=False, pool_size=1) as store:
        job = await running_job(store)
        assert await seconds_until(store, clock, job.id, state=State.SCHEDULED) <= 60


@asynccontextmanager
async def somebody_writes(url: str) -> AsyncIterator[None]:
    """A transaction of a stranger that has a number: no row that is deleted from now on can be removed."""
    async with connected(url) as stranger:
        await stranger.execute("BEGIN")
        await stranger.fetchval("SELECT txid_current()")
        yield
        await stranger.execute("ROLLBACK")


async def seconds_until(store: PostgresStore, clock: ManualClock, job_id: UUID, *, state: State) -> float:
    """Ticking once in five seconds, for a minute at the most."""
    for seconds in range(0, 61, 5):
        await tick(store)
        if await read_state(store, job_id) is state:
            return seconds
        clock.advance(5)
    raise AssertionError(f"not {state} within a minute")


async def busy_for(store: PostgresStore, clock: ManualClock, seconds: int) -> None:
    """Other jobs become due all along, so that every sweep finds something."""
    for _ in range(0, seconds, 5):
        await submit_one(store, delay_seconds=2.0)
        clock.advance(5)
        await tick(store)


# what is due


async def test_a_delayed_job_that_commits_late_is_released_within_a_minute(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    await tick(timed)
    async with connected(url) as caller:
        await caller.execute("BEGIN")
        job = new_job(delay_seconds=5.0)
        await timed.submit([Submit(jobs=(job,))], connection=caller)
        await busy_for(timed, clock, 150)
        await caller.execute("COMMIT")
    await seconds_until(timed, clock, job.id, state=State.SCHEDULED)


async def test_a_job_that_was_locked_long_past_its_time_is_released_within_a_minute(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    job_id = await submit_one(timed, delay_seconds=5.0)
    async with connected(url) as somebody:
        await somebody.execute("BEGIN")
        await somebody.execute("SELECT FROM holdfast.waiting FOR UPDATE")
        await busy_for(timed, clock, 150)
    await seconds_until(timed, clock, job_id, state=State.SCHEDULED)


async def test_a_lease_that_was_locked_long_past_its_end_is_reclaimed_within_a_minute(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    job = await running_job(timed, timeouts=Timeouts(visibility=10.0))
    async with connected(url) as somebody:
        await somebody.execute("BEGIN")
        await somebody.execute("SELECT FROM holdfast.running FOR UPDATE")
        await busy_for(timed, clock, 150)
    await seconds_until(timed, clock, job.id, state=State.SCHEDULED)


async def test_a_full_sweep_comes_by_the_processs_own_clock(url: str, timed: PostgresStore) -> None:
    """The database's may stand still, or be put back and forth."""
    monotonic = [0.0]
    sweeps = timed._database.sweeps
    for name in ("due", "expired", "orphaned"):
        getattr(sweeps, name)._monotonic = lambda: monotonic[0]
    await tick(timed)
    late = await submit_one(timed, delay_seconds=5.0)
    await fetch(url, "UPDATE holdfast.waiting SET due_at = due_at - interval '1 hour'")
    lost = await running_job(timed)
    await fetch(url, "DELETE FROM holdfast.worker")
    await tick(timed)
    states = [await read_state(timed, job_id) for job_id in (late, lost.id)]
    assert states == [State.DELAYED, State.RUNNING], "not at every tick"
    monotonic[0] += FULL_SWEEP_SECONDS
    await tick(timed)
    states = [await read_state(timed, job_id) for job_id in (late, lost.id)]
    assert states == [State.SCHEDULED, State.SCHEDULED]


async def test_a_part_that_fails_does_not_stop_the_others(timed: PostgresStore, clock: ManualClock, url: str) -> None:
    expired = await running_job(timed, timeouts=Timeouts(visibility=10.0))
    due = await submit_one(timed, delay_seconds=5.0)
    async with connected(url) as connection:
        await connection.execute("""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
            CREATE TRIGGER refuse BEFORE DELETE ON holdfast.running FOR EACH ROW EXECUTE FUNCTION refuse()
        """)
        try:
            clock.advance(10)
            with pytest.raises(Exception, match="no"):
                await timed.tick(Tick())
            assert await read_state(timed, due) is State.SCHEDULED
        finally:
            await connection.execute("DROP FUNCTION refuse CASCADE")
    await tick(timed)
    assert await read_state(timed, expired.id) is State.SCHEDULED


# leases


async def test_a_claim_that_commits_after_leave_strands_nothing(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    """The claim has found the worker there, and waits; leave finds none of its leases."""
    worker = await register(timed)
    job_id = await submit_one(timed)
    await tick(timed)
    async with connected(url) as claimer:
        await claimer.execute("BEGIN")
        statement = timed._database.sql["claim.lease"]
        lanes = timed._claims.cursors.ask(("default",), None, monotonic=0.0).columns
        token_stem = str(uuid4())[:-4]
        await claimer.fetch(statement, clock.now(), worker, *lanes, 1, None, token_stem, False)
        await timed.leave(worker)
        await claimer.execute("COMMIT")
    assert await read_state(timed, job_id) is State.RUNNING
    await seconds_until(timed, clock, job_id, state=State.SCHEDULED)


# what an idle tick costs


async def blocks_of(store: PostgresStore, url: str, work: Any) -> int:
    """How many blocks of our tables and indexes the work reads, from memory or not."""
    before = await _blocks(store, url)
    await work()
    return await _blocks(store, url) - before


async def _blocks(store: PostgresStore, url: str) -> int:
    for sql in ("SELECT pg_stat_force_next_flush()", "SELECT 1"):
        await store._database.fetch(sql)
    (row,) = await fetch(
        url,
        """
        SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::bigint AS n
        FROM pg_statio_user_tables WHERE schemaname = 'holdfast'
        """,
    )
    blocks: int = row["n"]
    return blocks


async def wal_of(url: str, work: Any) -> int:
    async with connected(url) as connection:
        before = await connection.fetchval("SELECT pg_current_wal_insert_lsn()")
        await work()
        written: int = await connection.fetchval("SELECT (pg_current_wal_insert_lsn() - $1::pg_lsn)::bigint", before)
        return written


OLD_JOBS = 50_000
FILL_ENDED = f"""
    INSERT INTO holdfast.job (
        id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds,
        lifetime_seconds
    )
    SELECT gen_random_uuid(), 'old', 'old', 2, 0, '{{}}', true, $1, 3, 300, 604800 FROM generate_series(1, {OLD_JOBS});
    INSERT INTO holdfast.ended (
        job, completed_at, version, attempt, replays, is_fragile, has_dependents, state
    )
    SELECT seq, $1::timestamptz + seq * interval '1 millisecond', 1, 1, 0, false, true, 'COMPLETED'
    FROM holdfast.job WHERE type = 'old';
"""
KEPT_BY: dict[str, str] = {
    "keys": """
        INSERT INTO holdfast.idempotency (job_type, key, job_id, digest, expires_at)
        SELECT 'old', seq::text, id, '', $1::timestamptz + interval '90 days' FROM holdfast.job WHERE type = 'old'
    """,
    "dependents": """
        INSERT INTO holdfast.edge (child, parent, is_open, kind)
        SELECT -1, seq, true, 'AFTER' FROM holdfast.job WHERE type = 'old'
    """,
}


async def fill(url: str, clock: ManualClock, *scripts: str) -> None:
    async with connected(url) as connection:
        for script in scripts:
            for statement in script.split(";\n"):
                if statement.strip():
                    text = statement.replace("$1", f"'{clock.now().isoformat()}'")
                    await connection.execute(text)
        await connection.execute("ANALYZE holdfast.job, holdfast.ended, holdfast.idempotency, holdfast.edge")


@pytest.mark.parametrize("kept_by", list(KEPT_BY))
async def test_an_idle_tick_reads_the_same_with_many_jobs_that_must_stay(
    timed: PostgresStore, clock: ManualClock, url: str, kept_by: str
) -> None:
    async def idle() -> int:
        for _ in range(3):
            await timed.tick(Tick())
        return await blocks_of(timed, url, lambda: timed.tick(Tick()))

    monotonic = [0.0]
    timed._database.sweeps.done.monotonic = lambda: monotonic[0]
    clock.advance(10 * DAY)
    none = await idle()
    await fill(url, clock, FILL_ENDED, KEPT_BY[kept_by])
    clock.advance(10 * DAY)
    # An index may have grown by a level.
    assert await idle() <= 1.1 * none + 2
    removable = await running_job(timed)
    await settle(timed, removable)
    clock.advance(8 * DAY)
    removed = 0
    for _ in range(OLD_JOBS // (Tick().batch * RETENTION_LOOKS) + 1):
        removed += (await timed.tick(Tick())).removed
        monotonic[0] += RETENTION_REST_SECONDS
    assert removed == 1, "what must stay does not keep what may go"


async def test_what_had_to_stay_is_looked_at_again(timed: PostgresStore, clock: ManualClock) -> None:
    """By the process's own clock, too; and where a tick cannot look at all of it, the next ones go on."""
    monotonic = [0.0]
    timed._database.sweeps = Sweeps()
    for name in ("done", "dead"):
        getattr(timed._database.sweeps, name).monotonic = lambda: monotonic[0]
    worker = await register(timed)
    parents = [await running_job(timed, worker=worker) for _ in range(25)]
    waiting = new_job(dependencies=(), timeouts=Timeouts(lifetime=90 * DAY))
    child = await submit_dependent(timed, [parent.id for parent in parents], waiting)
    for parent in parents[:-1]:
        await settle(timed, parent)
    short = Tick(batch=1, completed_retention_seconds=0.0, dead_retention_seconds=0.0)
    for _ in range(10):
        assert (await timed.tick(short)).removed == 0
        monotonic[0] += RETENTION_AGAIN_SECONDS / 10
    await timed.cancel([child])
    removed = 0
    for _ in range(60):
        removed += (await timed.tick(short)).removed
        monotonic[0] += RETENTION_AGAIN_SECONDS / 10
    assert removed == 25, "the child and the 24 that it waited for"


async def submit_dependent(store: PostgresStore, parents: Sequence[UUID], job: Any) -> UUID:
    (submitted,) = await submit_jobs(store, replace(job, dependencies=after(*parents)))
    return submitted.job_id


async def test_an_idle_tick_writes_nothing_however_many_queues_there_are(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    await fetch(
        url,
        """
        INSERT INTO holdfast.tally (queue, state, delta)
        SELECT 'queue-' || n, s, 1 FROM generate_series(1, 10000) n, unnest('{COMPLETED,SCHEDULED,RUNNING}'::text[]) s
        """,
    )
    worker = await register(timed)
    written = []
    for _ in range(9):
        clock.advance(1)
        await timed.heartbeat(Heartbeat(worker=worker, held=()))
        written.append(await wal_of(url, lambda: timed.tick(Tick())))
    assert median(written) == 0, written


# counts


async def tally_bytes(url: str) -> int:
    (row,) = await fetch(url, "SELECT pg_relation_size('holdfast.tally') AS n")
    size: int = row["n"]
    return size


async def count_often(url: str, times: int) -> None:
    await fetch(
        url,
        """
        INSERT INTO holdfast.tally (queue, state, delta)
        SELECT 'default', 'SCHEDULED', 2 * (n % 2) - 1 FROM generate_series(1, $1::int) n
        """,
        times,
    )


async def test_counts_stay_small_and_exact_while_somebody_writes(
    timed: PostgresStore, clock: ManualClock, url: str
) -> None:
    """No dead rows are left behind, so that none have to be read, however long the stranger stays."""
    monotonic = [0.0]
    timed._database.sweeps.tally = Tally(lambda: monotonic[0])
    await submit_one(timed)
    async with somebody_writes(url):
        for _ in range(5):
            await count_often(url, 20_000)
            assert await read_counts(timed) == {State.SCHEDULED: 1}
            await timed.tick(Tick())
            monotonic[0] += 60.0
            assert await tally_bytes(url) <= Tally.WORTH_BYTES
            assert await read_counts(timed) == {State.SCHEDULED: 1}


async def test_counts_wait_for_nobody_and_lose_nothing(timed: PostgresStore, url: str) -> None:
    """A caller's open transaction has counted: its row can be added up only after its end."""
    monotonic = [0.0]
    timed._database.sweeps.tally = Tally(lambda: monotonic[0])
    await count_often(url, 20_000)
    async with connected(url) as caller:
        await caller.execute("BEGIN")
        await timed.submit([Submit(jobs=(new_job(),))], connection=caller)
        for _ in range(5):
            await timed.tick(Tick())
            monotonic[0] += 60.0
        assert await tally_bytes(url) > Tally.WORTH_BYTES
        await submit_one(timed)
        assert await read_counts(timed) == {State.SCHEDULED: 1}
        await caller.execute("COMMIT")
    await timed.tick(Tick())
    assert await tally_bytes(url) <= Tally.WORTH_BYTES
    assert await read_counts(timed) == {State.SCHEDULED: 2}


# heartbeats


async def test_a_heartbeat_does_not_walk_over_dead_leases(timed: PostgresStore, url: str, clock: ManualClock) -> None:
    worker = await register(timed)
    job = await running_job(timed, worker=worker)
    heartbeat = Heartbeat(worker=worker, held=(job.lease,))
    await timed.heartbeat(heartbeat)
    few = await blocks_of(timed, url, lambda: timed.heartbeat(heartbeat))
    async with somebody_writes(url), connected(url) as connection:
        await connection.execute(f"""
            INSERT INTO holdfast.running (
                job, scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, token, owner, version,
                attempt, replays, is_fragile, has_dependents, queue
            )
            SELECT -n, now(), now(), now(), now(), 300, gen_random_uuid(), '{worker}', 1, 1, 0, false, false, 'default'
            FROM generate_series(1, 30000) n
        """)
        await connection.execute("DELETE FROM holdfast.running WHERE job < 0")
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT 1")
        assert await blocks_of(timed, url, lambda: timed.heartbeat(heartbeat)) <= 2 * few
        timed._database.sweeps.unknown._compared.clear()
        assert (await timed.heartbeat(Heartbeat(worker=worker, held=()))).handed_back == 1, "but now and then it does"
