"""That a job costs the same whatever is in the database: a backlog, a history, many queues, a pinned snapshot."""

import asyncio
from collections.abc import Sequence
from typing import Final

import asyncpg

from benchmarks.bench import Bench
from benchmarks.figures import Figure, medians
from benchmarks.postgres.databases import Database
from benchmarks.rounds import Lap, Ratio, Stopwatch, ratio, take_turns
from benchmarks.store_side import StoreSide
from benchmarks.workload import queue_names

TENTHS: Final = 10
SLICES: Final = 4
"""A tenth of the pinned run is drained in so many parts, between which the control has its turns."""
SERVED: Final = (1, 10, 100, 1000)
STANDING_JOBS_A_QUEUE: Final = 10


async def measure_backlog(bench: Bench) -> Sequence[Figure]:
    large, small = bench.sizes.large_backlog_jobs, bench.sizes.small_backlog_jobs
    bench.say(f"backlog: filling in {large} waiting jobs")
    databases = {"large": await Database.create(bench.server), "small": await Database.create(bench.server)}
    await databases["large"].fill_ready(large)
    await databases["small"].fill_ready(small)
    rates = await _compare(bench, databases, f"claim and settle behind {large} and {small} waiting jobs")
    return [
        Figure(
            measured=f"PostgreSQL: claim + settle behind {large:,} waiting jobs, against {small:,}",
            value=ratio(rates["large"], rates["small"]),
            at_least=0.9,
            details=medians(rates),
        )
    ]


async def measure_history(bench: Bench) -> Sequence[Figure]:
    history, small = bench.sizes.history_jobs, bench.sizes.small_backlog_jobs
    bench.say(f"history: filling in {history} ended jobs")
    databases = {"history": await Database.create(bench.server), "none": await Database.create(bench.server)}
    await databases["history"].fill_ended(history)
    for database in databases.values():
        await database.fill_ready(small)
    rates = await _compare(bench, databases, f"claim and settle with {history} ended jobs and with none")
    return [
        Figure(
            measured=f"PostgreSQL: claim + settle with {history:,} ended jobs in history, against none",
            value=ratio(rates["history"], rates["none"]),
            at_least=0.9,
            details=medians(rates),
        )
    ]


async def _compare(bench: Bench, databases: dict[str, Database], what: str) -> dict[str, list[float]]:
    """The same drain in each database, which is refilled before each lap."""
    stores = {name: database.store() for name, database in databases.items()}
    try:
        for name, database in databases.items():
            await database.settle_down()
            await stores[name].open()
        bench.say(f"{what}: {bench.sizes.growth_rounds} rounds")
        laps = {name: _refilled(bench, databases[name], stores[name]) for name in databases}
        return await take_turns(laps, rounds=bench.sizes.growth_rounds)
    finally:
        await asyncio.gather(*(store.close() for store in stores.values()))
        for database in databases.values():
            await database.drop()


def _refilled(bench: Bench, database: Database, store: StoreSide, *, queues: int = 1) -> Lap:
    jobs = min(bench.sizes.lap_jobs, bench.sizes.small_backlog_jobs)

    async def lap() -> float:
        await database.fill_ready(jobs, queues=queues)
        with Stopwatch() as draining:
            await store.drain(jobs)
        return draining.rate(jobs)

    return lap


async def measure_queues(bench: Bench) -> Sequence[Figure]:
    """A worker that serves some of many queues, and drains them in its order: the front ones run empty first."""
    served = [count for count in SERVED if count <= bench.sizes.queues]
    # A database for each: what one side leaves behind is not for another to walk over.
    databases = {count: await Database.create(bench.server) for count in (0, *served)}
    stores = {count: database.store(queues=queue_names(count or 1)) for count, database in databases.items()}
    try:
        for count, database in databases.items():
            queues = bench.sizes.queues if count else 1
            await database.fill_ready(bench.sizes.queues * STANDING_JOBS_A_QUEUE, queues=queues)
            await database.settle_down()
            await stores[count].open()
        bench.say(f"queues: {served} of {bench.sizes.queues} served: {bench.sizes.queue_rounds} rounds")
        laps = {_side(n): _refilled(bench, databases[n], stores[n], queues=n or 1) for n in databases}
        rates = await take_turns(laps, rounds=bench.sizes.queue_rounds)
    finally:
        await asyncio.gather(*(store.close() for store in stores.values()))
        for database in databases.values():
            await database.drop()
    return [
        Figure(
            measured=f"PostgreSQL: claim + settle, {count} of {bench.sizes.queues} queues served, against one queue",
            value=ratio(rates[_side(count)], rates[_side(0)]),
            at_least=0.8 if count == 10 else None,
            details=medians({name: rates[name] for name in (_side(count), _side(0))}),
        )
        for count in served
    ]


def _side(served: int) -> str:
    return f"{served} served" if served else "one queue"


async def measure_snapshot(bench: Bench) -> Sequence[Figure]:
    """Each tenth is taken over a control in another database, drained in between: the machine's own ups and downs."""
    raw: list[float] = []
    values: list[float] = []
    details: dict[str, object] = {}
    for number in range(bench.sizes.pinned_rounds):
        bench.say(f"snapshot: {bench.sizes.pinned_jobs} jobs, round {number + 1} of {bench.sizes.pinned_rounds}")
        pinned, control = await _pinned_run(bench)
        raw.append(pinned[-1] / pinned[0])
        values.append((pinned[-1] / control[-1]) / (pinned[0] / control[0]))
        details = {"tenths jobs/s": [round(rate) for rate in pinned], "control jobs/s": [round(r) for r in control]}
    value = ratio(values, [1.0] * len(values))
    plain: Ratio = ratio(raw, [1.0] * len(raw))
    return [
        Figure(
            measured=f"PostgreSQL: {bench.sizes.pinned_jobs:,} jobs under a pinned snapshot, last tenth against first",
            value=value,
            at_least=0.8,
            details={"without the control": round(plain.median, 2), **details},
        )
    ]


async def _pinned_run(bench: Bench) -> tuple[list[float], list[float]]:
    pinned, control = await Database.create(bench.server), await Database.create(bench.server)
    stores = pinned.store(), control.store()
    await asyncio.gather(*(store.open() for store in stores))
    slice_jobs = bench.sizes.pinned_jobs // TENTHS // SLICES
    control_jobs = slice_jobs // 2
    # The last lap of a control that is about to run dry would not be like its first: a tenth more than it needs.
    await pinned.fill_ready(bench.sizes.pinned_jobs)
    await control.fill_ready(control_jobs * SLICES * (TENTHS + 1))
    await asyncio.gather(pinned.settle_down(), control.settle_down())
    snapshot = await _take_snapshot(pinned.url)
    try:
        rates: tuple[list[float], list[float]] = ([], [])
        for _ in range(TENTHS):
            watches = Stopwatch(), Stopwatch()
            for _ in range(SLICES):
                for store, watch, jobs in zip(stores, watches, (slice_jobs, control_jobs), strict=True):
                    with watch:
                        await store.drain(jobs)
            rates[0].append(watches[0].rate(slice_jobs * SLICES))
            rates[1].append(watches[1].rate(control_jobs * SLICES))
        return rates
    finally:
        await asyncio.gather(snapshot.close(), *(store.close() for store in stores))
        await pinned.drop()
        await control.drop()


async def _take_snapshot(url: str) -> asyncpg.Connection:
    """Held for as long as the connection is open."""
    connection = await asyncpg.connect(url)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    await connection.fetchval("SELECT count(*) FROM pg_class")
    return connection
