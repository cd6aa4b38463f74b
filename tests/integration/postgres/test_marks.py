"""The marks of ended jobs: dead ones that no vacuum may remove cost nothing, and late ones are found."""

import pytest

from holdfast.core.commands import Tick
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, marks
from holdfast.testing.factories import after, claim_one, new_job, read_state, register, settle, submit_jobs
from tests.integration.postgres.databases import connected, fetch, opened

DEAD = 50_000
SPARE_BLOCKS = 30
"""More than a few lookups differ by, far less than a walk over the dead takes."""


async def blocks_read(url: str, store: PostgresStore) -> int:
    """Of the table of marks and its indexes, by all so far. The store has one connection, which says what it read."""
    await store._database.fetch("SELECT pg_stat_force_next_flush()")
    sql = """
        SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read AS blocks
        FROM pg_statio_user_tables WHERE relid = 'holdfast.mark'::regclass
    """
    return int((await fetch(url, sql))[0]["blocks"])


async def blocks_of_one_end(url: str, store: PostgresStore) -> tuple[int, int]:
    """What a settle with a dependent reads, and a tick after it."""
    worker = await register(store)
    parent = new_job()
    await submit_jobs(store, parent, new_job(queue="children", dependencies=after(parent.id)))
    job = await claim_one(store, worker)
    before = await blocks_read(url, store)
    await settle(store, job)
    settled = await blocks_read(url, store)
    await store.tick(Tick())
    return settled - before, await blocks_read(url, store) - settled


async def test_dead_marks_cost_neither_settle_nor_tick(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "OVERLAP_SECONDS", 0.0)
    async with opened(url, pool_size=1) as store, connected(url) as pinned:
        await fetch(url, "VACUUM holdfast.mark")
        await store.tick(Tick())
        usual = await blocks_of_one_end(url, store)
        async with pinned.transaction(isolation="repeatable_read", readonly=True):
            await pinned.fetch("SELECT count(*) FROM holdfast.mark")
            await fetch(url, "INSERT INTO holdfast.mark (job) SELECT -n FROM generate_series(1, $1::bigint) n", DEAD)
            await fetch(url, "DELETE FROM holdfast.mark WHERE job < 0")
            # One tick walks over them, and the next begins behind.
            await store.tick(Tick())
            await store.tick(Tick())
            with_dead = await blocks_of_one_end(url, store)
        assert with_dead[0] <= usual[0] + SPARE_BLOCKS
        assert with_dead[1] <= usual[1] + SPARE_BLOCKS


async def left_mark(url: str, store: PostgresStore) -> tuple[int, object]:
    """A mark as it is left by a process that ended before it told the dependents: its job, and the dependent."""
    worker = await register(store)
    parent, child = new_job(), new_job(queue="children")
    await submit_jobs(store, parent, child)
    job = await claim_one(store, worker)
    await settle(store, job)
    (row,) = await fetch(url, "SELECT seq FROM holdfast.job WHERE id = $1", child.id)
    edge = "INSERT INTO holdfast.edge (child, parent, is_open, kind) VALUES ($1, $2, true, 'AFTER')"
    await fetch(url, edge, row["seq"], job.lease.seq)
    move = """
        WITH gone AS (DELETE FROM holdfast.ready WHERE job = $1 RETURNING *)
        INSERT INTO holdfast.waiting (
            job, updated_at, lifetime_ends_at, version, attempt, replays, is_fragile, has_dependents, state
        )
        SELECT job, now(), lifetime_ends_at, version, attempt, replays, is_fragile, has_dependents, 'PENDING' FROM gone
    """
    await fetch(url, move, row["seq"])
    return job.lease.seq, child.id


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_mark_that_was_left_is_found_by_others(
    url: str, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Also one whose transaction began long before it committed."""
    monkeypatch.setattr(marks, "OVERLAP_SECONDS", 0.0)
    async with opened(url) as store:
        seq, child = await left_mark(url, store)
        place = (await fetch(url, "SELECT pg_current_xact_id()::text::bigint AS place"))[0]["place"]
        for _ in range(3):
            await store.tick(Tick())
        if is_late:
            await fetch(url, "INSERT INTO holdfast.mark (job, place) VALUES ($1, $2)", seq, place)
            monkeypatch.setattr(marks, "FULL_LOOK_SECONDS", 0.0)
            store._database.sweeps.marks._next_full_look = 0.0
        else:
            await fetch(url, "INSERT INTO holdfast.mark (job) VALUES ($1)", seq)
        await store.tick(Tick())
        assert await read_state(store, child) is State.SCHEDULED  # type: ignore[arg-type]
        assert await fetch(url, "SELECT FROM holdfast.mark") == []
