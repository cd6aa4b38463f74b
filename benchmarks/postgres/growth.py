"""That a job costs the same whatever is in the database: a backlog, history, many queues, an open transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from benchmarks.bench import Bench
from benchmarks.figures import Figure, medians
from benchmarks.postgres.databases import Database
from benchmarks.rounds import Lap, Stopwatch, ratio, take_turns
from benchmarks.store_side import StoreSide
from benchmarks.workload import queue_names
from holdfast.core.commands import Tick
from holdfast.core.ports import Store

TENTHS: Final = 10
SLICES: Final = 4
"""A tenth of the pinned run is drained in so many parts, between which the control has its turns."""
CALLS: Final = 100
SETTLE_SECONDS: Final = 2.5
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


async def measure_types(bench: Bench) -> Sequence[Figure]:
    """Jobs that no worker here knows stand in front of all others, and stay there."""
    foreign, small = bench.sizes.foreign_jobs, bench.sizes.small_backlog_jobs
    bench.say(f"types: filling in {foreign} jobs of another type")
    databases = {"foreign": await Database.create(bench.server), "none": await Database.create(bench.server)}
    await databases["foreign"].fill_ready(foreign, job_type="another")
    for database in databases.values():
        await database.fill_ready(small)
    rates = await _compare(bench, databases, f"claim and settle behind {foreign} jobs of another type and behind none")
    return [
        Figure(
            measured=f"PostgreSQL: claim + settle behind {foreign:,} jobs of another type, against none",
            value=ratio(rates["foreign"], rates["none"]),
            at_least=0.8,
            details=medians(rates),
        )
    ]


HELD: Final = {
    "reading": ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SELECT count(*) FROM pg_class"),
    "writing": ("BEGIN", "SELECT txid_current()"),
}
"""What somebody does in a transaction that then stays open."""


async def measure_snapshot(bench: Bench) -> Sequence[Figure]:
    return [figure for kind in HELD for figure in await _measure_held(bench, kind)]


@dataclass(slots=True)
class HeldRun:
    """Rates beside an open transaction, and of a control in another database without one."""

    drained: list[float] = field(default_factory=list)
    drained_control: list[float] = field(default_factory=list)
    """By tenths."""
    calls: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Calls a second in the end, and the control's."""


async def _measure_held(bench: Bench, kind: str) -> list[Figure]:
    """Each tenth is taken over a control in another database, drained in between: the machine's own ups and downs."""
    jobs, rounds = bench.sizes.pinned_jobs, bench.sizes.pinned_rounds
    runs: list[HeldRun] = []
    for number in range(rounds):
        bench.say(f"snapshot: {jobs} jobs, somebody {kind}, round {number + 1} of {rounds}")
        runs.append(await _held_run(bench, kind))
    values = [(r.drained[-1] / r.drained_control[-1]) / (r.drained[0] / r.drained_control[0]) for r in runs]
    plain = ratio([run.drained[-1] for run in runs], [run.drained[0] for run in runs])
    last = runs[-1]
    details: dict[str, object] = {"without the control": round(plain.median, 2)}
    details["tenths jobs/s"] = [round(rate) for rate in last.drained]
    details["control jobs/s"] = [round(rate) for rate in last.drained_control]
    what = f"{jobs:,} jobs beside an open {kind} transaction"
    drained = Figure(
        measured=f"PostgreSQL: {what}, last tenth against first",
        value=ratio(values, [1.0] * rounds),
        at_least=0.8,
        details=details,
    )
    return [drained, *(_figure_of_calls(name, what, runs) for name in last.calls)]


def _figure_of_calls(name: str, what: str, runs: Sequence[HeldRun]) -> Figure:
    held, control = ([run.calls[name][side] for run in runs] for side in (0, 1))
    return Figure(
        measured=f"PostgreSQL: {name} after {what}, against none",
        value=ratio(held, control),
        at_least=0.8,
        details={"calls/s": round(held[-1]), "control calls/s": round(control[-1])},
    )


async def _held_run(bench: Bench, kind: str) -> HeldRun:
    pinned, control = await Database.create(bench.server), await Database.create(bench.server)
    stores = pinned.store(), control.store()
    await asyncio.gather(*(store.open() for store in stores))
    slice_jobs = bench.sizes.pinned_jobs // TENTHS // SLICES
    control_jobs = slice_jobs // 2
    await pinned.fill_ready(bench.sizes.pinned_jobs)
    await control.fill_ready(bench.sizes.pinned_jobs)
    await asyncio.gather(pinned.settle_down(), control.settle_down())
    stranger = await _hold(pinned.url, kind)
    try:
        run = HeldRun()
        for _ in range(TENTHS):
            watches = Stopwatch(), Stopwatch()
            for _ in range(SLICES):
                for store, watch, jobs in zip(stores, watches, (slice_jobs, control_jobs), strict=True):
                    with watch:
                        await store.drain(jobs)
            run.drained.append(watches[0].rate(slice_jobs * SLICES))
            run.drained_control.append(watches[1].rate(control_jobs * SLICES))
        # What is counted is the same in both.
        await stores[1].drain(bench.sizes.pinned_jobs - control_jobs * SLICES * TENTHS)
        run.calls["tick"] = await _rates_of_calls(stores, lambda store: store.tick(Tick()))
        run.calls["counts"] = await _rates_of_calls(stores, lambda store: store.read_queues())
        return run
    finally:
        await asyncio.gather(stranger.close(), *(store.close() for store in stores))
        await pinned.drop()
        await control.drop()


async def _rates_of_calls(
    stores: Sequence[StoreSide], call: Callable[[Store], Awaitable[object]]
) -> tuple[float, float]:
    watches = Stopwatch(), Stopwatch()
    # As by somebody who asks again and again: the first call finds out where the next ones start.
    for side in stores:
        await call(side.store)
    await asyncio.sleep(SETTLE_SECONDS)
    for _ in range(CALLS):
        for side, watch in zip(stores, watches, strict=True):
            with watch:
                await call(side.store)
    return watches[0].rate(CALLS), watches[1].rate(CALLS)


async def _hold(url: str, kind: str) -> asyncpg.Connection:
    """A transaction that is open for as long as the connection is."""
    connection = await asyncpg.connect(url)
    for statement in HELD[kind]:
        await connection.execute(statement)
    return connection
