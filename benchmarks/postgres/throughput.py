"""How fast, against the floor: claim and settle, submit, and a batch against the same jobs one by one."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure, Missing, medians
from benchmarks.postgres.databases import FLOOR_SCHEMA, Database
from benchmarks.postgres.sides import FloorSide, columns, statement
from benchmarks.rounds import Lap, Stopwatch, fastest, ratio, take_turns
from benchmarks.store_side import StoreSide
from benchmarks.workload import CONCURRENT_SUBMITTERS, PAYLOAD, batches
from tests.servers.postgres import find_binaries

FLOORS: Final = ("split", "one table")
STORE: Final = "store"
AHEAD: Final = "store, claiming ahead"
PGBENCH_ROUNDS: Final = 5
PGBENCH_RATE: Final = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)


async def measure_throughput(bench: Bench) -> Sequence[Figure | Missing]:
    database = await Database.create(bench.server)
    store = database.store()
    floors = {"split": database.floor("split"), "one table": database.floor("one")}
    await asyncio.gather(store.open(), *(floor.open() for floor in floors.values()))
    try:
        bench.say(f"claim and settle, submit: {bench.sizes.rounds} rounds of {bench.sizes.lap_jobs} jobs a side")
        race = await _race(bench, store, floors)
        bench.say(f"submit against single inserts: {PGBENCH_ROUNDS} rounds")
        singles = await _against_pgbench(bench, database, store, floors["one table"])
        return [*race, *singles]
    finally:
        await asyncio.gather(store.close(), *(floor.close() for floor in floors.values()))
        await database.drop()


async def _race(bench: Bench, store: StoreSide, floors: dict[str, FloorSide]) -> Sequence[Figure]:
    jobs = bench.sizes.lap_jobs
    submits: dict[str, list[float]] = {STORE: [], AHEAD: [], **{name: [] for name in floors}}

    def store_lap(drain: Callable[[int], Awaitable[None]], name: str) -> Lap:
        async def lap() -> float:
            given = batches(jobs)
            with Stopwatch() as submitting:
                await store.submit(given)
            with Stopwatch() as draining:
                await drain(jobs)
            submits[name].append(submitting.rate(jobs))
            return draining.rate(jobs)

        return lap

    def floor_lap(name: str, floor: FloorSide) -> Lap:
        async def lap() -> float:
            given = [columns(batch) for batch in batches(jobs)]
            with Stopwatch() as submitting:
                await floor.submit(given)
            with Stopwatch() as draining:
                await floor.drain(jobs)
            submits[name].append(submitting.rate(jobs))
            return draining.rate(jobs)

        return lap

    own = {STORE: store_lap(store.drain, STORE), AHEAD: store_lap(store.drain_ahead, AHEAD)}
    laps = {**own, **{name: floor_lap(name, floor) for name, floor in floors.items()}}
    drains = await take_turns(laps, rounds=bench.sizes.rounds)
    submits = {name: values[-bench.sizes.rounds :] for name, values in submits.items()}
    return (
        _against_floor("claim + settle in batches of 200", drains, at_least=0.7),
        _against_floor("the same on two connections, claiming ahead as a worker does", drains, side=AHEAD),
        _against_floor("submit in batches of 1000", submits, at_least=0.6),
    )


def _against_floor(
    what: str, rates: dict[str, list[float]], *, side: str = STORE, at_least: float | None = None
) -> Figure:
    floor = fastest(rates, FLOORS)
    return Figure(
        measured=f"PostgreSQL: {what}, against the floor",
        value=ratio(rates[side], rates[floor]),
        at_least=at_least,
        details={"floor": floor, **medians(rates)},
    )


async def _against_pgbench(
    bench: Bench, database: Database, store: StoreSide, floor: FloorSide
) -> Sequence[Figure | Missing]:
    """A floor that is not far above single inserts would be none."""
    measured = f"in batches of 1000, against pgbench, {CONCURRENT_SUBMITTERS} clients, one by one"
    binaries = find_binaries()
    program = shutil.which("pgbench", path=str(binaries) if binaries else None) or shutil.which("pgbench")
    if program is None:
        return [Missing(measured=f"PostgreSQL: submit {measured}", why="there is no pgbench on this machine")]
    script = statement("pgbench_insert", FLOOR_SCHEMA).replace("{payload}", f"\\x{PAYLOAD.data.hex()}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "insert.sql"
        path.write_text(" ".join(line for line in script.splitlines() if not line.startswith("--")))

        async def single() -> float:
            return await _run_pgbench(program, path, database.url, seconds=bench.sizes.pgbench_seconds)

        async def batch() -> float:
            given = batches(bench.sizes.lap_jobs)
            with Stopwatch() as submitting:
                await store.submit(given)
            return submitting.rate(bench.sizes.lap_jobs)

        async def floor_batch() -> float:
            given = [columns(batch) for batch in batches(bench.sizes.lap_jobs)]
            with Stopwatch() as submitting:
                await floor.submit(given)
            return submitting.rate(bench.sizes.lap_jobs)

        laps: dict[str, Lap] = {STORE: batch, "floor": floor_batch, "pgbench": single}
        rates = await take_turns(laps, rounds=PGBENCH_ROUNDS)
    return [
        Figure(
            measured=f"PostgreSQL: the floor's submit {measured}",
            value=ratio(rates["floor"], rates["pgbench"]),
            at_least=3.0,
            details=medians(rates),
        ),
        Figure(
            measured=f"PostgreSQL: submit {measured}",
            value=ratio(rates[STORE], rates["pgbench"]),
            details=medians(rates),
        ),
    ]


async def _run_pgbench(program: str, script: Path, url: str, *, seconds: int) -> float:
    options = ["-n", "-M", "prepared", "-c", str(CONCURRENT_SUBMITTERS), "-j", "2", "-T", str(seconds)]
    process = await asyncio.create_subprocess_exec(
        *(program, *options, "-f", str(script), url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    found = PGBENCH_RATE.findall(output)
    if not found:
        raise RuntimeError(f"pgbench said: {output[-1000:]}")
    return float(found[-1])
