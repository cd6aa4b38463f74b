"""Durable submits of one job each: by many tasks at once, one at a time, and by hand.

The submitter lets those that arrive together share a commit, without ever waiting for company. So ten tasks must get
much more done than one, and one must not pay for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.bench import Bench
from benchmarks.figures import Figure, medians
from benchmarks.rounds import Stopwatch, ratio, take_turns
from benchmarks.workload import CONCURRENT_SUBMITTERS, new_jobs
from holdfast.core.commands import NewJob, Submit
from holdfast.core.ports import Store
from holdfast.engine.submit import Submitter

RawInsert = Callable[[Sequence[NewJob]], Awaitable[None]]
"""Insert the jobs by hand, each with a commit of its own."""


async def compare_singles(bench: Bench, *, name: str, store: Store, insert: RawInsert) -> Sequence[Figure]:
    submitter = Submitter(store)
    jobs = bench.sizes.single_submits

    async def submit_each(given: Sequence[Submit]) -> None:
        for one in given:
            await submitter.submit(one)

    async def alone() -> float:
        given = _submits(jobs)
        with Stopwatch() as watch:
            await submit_each(given)
        return watch.rate(jobs)

    async def together() -> float:
        given = [_submits(jobs) for _ in range(CONCURRENT_SUBMITTERS)]
        with Stopwatch() as watch:
            await asyncio.gather(*(submit_each(part) for part in given))
        return watch.rate(jobs * CONCURRENT_SUBMITTERS)

    async def raw() -> float:
        given = new_jobs(jobs)
        with Stopwatch() as watch:
            await insert(given)
        return watch.rate(jobs)

    laps = {"ten tasks": together, "one at a time": alone, "raw": raw}
    bench.say(f"single submits, {name}: {bench.sizes.single_rounds} rounds")
    rates = await take_turns(laps, rounds=bench.sizes.single_rounds)
    return [
        Figure(
            measured=f"{name}: single submits by {CONCURRENT_SUBMITTERS} tasks, against one at a time",
            value=ratio(rates["ten tasks"], rates["one at a time"]),
            at_least=4.0,
            details=medians(rates),
        ),
        Figure(
            measured=f"{name}: single submits one at a time, against a raw INSERT and commit",
            value=ratio(rates["one at a time"], rates["raw"]),
            at_least=0.8,
            details=medians(rates),
        ),
    ]


def _submits(count: int) -> list[Submit]:
    return [Submit(jobs=(job,)) for job in new_jobs(count)]
