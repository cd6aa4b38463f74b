"""SQLite against raw sqlite3: claim and settle, and single submits."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.figures import Figure, medians
from benchmarks.rounds import Stopwatch, ratio, take_turns
from benchmarks.singles import compare_singles
from benchmarks.sqlite.side import RawSide
from benchmarks.store_side import StoreSide
from benchmarks.workload import batches
from holdfast.core.commands import NewJob
from holdfast.stores.sqlite import SQLiteStore


async def measure_drain(bench: Bench) -> Sequence[Figure]:
    jobs = bench.sizes.lap_jobs
    with tempfile.TemporaryDirectory() as folder:
        store, raw = await _open(Path(folder))

        async def store_lap() -> float:
            await store.submit(batches(jobs))
            with Stopwatch() as draining:
                await store.drain(jobs)
            return draining.rate(jobs)

        async def raw_lap() -> float:
            raw.submit(batches(jobs))
            with Stopwatch() as draining:
                raw.drain(jobs)
            return draining.rate(jobs)

        try:
            bench.say(f"SQLite, claim and settle: {bench.sizes.rounds} rounds of {jobs} jobs a side")
            rates = await take_turns({"store": store_lap, "raw": raw_lap}, rounds=bench.sizes.rounds)
            durability = {name: raw.setting(name) for name in ("journal_mode", "synchronous")}
        finally:
            raw.close()
            await store.close()
    return [
        Figure(
            measured="SQLite: claim + settle in batches of 200, against raw sqlite3",
            value=ratio(rates["store"], rates["raw"]),
            at_least=0.6,
            details={**durability, **medians(rates)},
        )
    ]


async def measure_singles(bench: Bench) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        store, raw = await _open(Path(folder))

        async def insert(jobs: Sequence[NewJob]) -> None:
            raw.submit_each(jobs)

        try:
            return await compare_singles(bench, name="SQLite", store=store.store, insert=insert)
        finally:
            raw.close()
            await store.close()


async def _open(folder: Path) -> tuple[StoreSide, RawSide]:
    store = StoreSide(SQLiteStore(folder / "store.db", synchronous="FULL"))
    await store.open()
    return store, RawSide(folder / "raw.db")
