"""ListJobs on the durable engine.

The engine lists newest first and goes on from a cursor; v1 wants an offset, and an order by (created_at_ms, job_id) in
both directions. So a page is found by reading from its end of the table as far as the page reaches. No snapshot: what
comes and moves meanwhile may show twice or not at all.

Oldest first: a cursor is a job's seq, and what lies below it is listed. So the lowest seq is found by halving, and from
there the table is read in windows of seqs, upwards. Where few of a window's jobs are asked for the next one is wider.

The engine's order is that in which jobs were written. Where several servers write to one database, it may differ from
that of the time by the length of a transaction: so a little further is read than the page reaches.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.core.commands import Filter
from holdfast.core.job import Job
from holdfast.engine.engine import Engine
from holdfast.rpc import limits
from holdfast.rpc.engine_jobs import TYPE, states_of, status_of, summary_of
from holdfast.rpc.generated import taskqueue_public_pb2 as public

READ_JOBS: Final = 200
"""At a time: they come with their results, which may be large."""
SLACK_MS: Final = 250


async def list_jobs(
    engine: Engine, statuses: frozenset[int], *, offset: int, size: int, sort: int
) -> public.ListJobsResponse:
    is_ascending = sort == public.CREATED_AT_ASC
    # One more than the page tells whether there is another one.
    wanted = offset + size + 1
    jobs = await (_oldest if is_ascending else _newest)(engine, statuses, wanted)
    sign = 1 if is_ascending else -1
    jobs.sort(key=lambda job: (sign * job.created_at_ms, job.job_id))
    return public.ListJobsResponse(
        jobs=jobs[offset : offset + size],
        page=public.PageResponse(next_page_token=str(offset + size) if len(jobs) > offset + size else ""),
    )


async def _newest(engine: Engine, statuses: frozenset[int], wanted: int) -> list[public.JobSummary]:
    """At least so many, and all that might stand before the last of them; or all there are."""
    where = Filter(type=TYPE, states=states_of(statuses))
    found: list[public.JobSummary] = []
    cursor: int | None = None
    while True:
        limit = min(READ_JOBS, max(wanted - len(found), limits.PAGE_SIZE_DEFAULT))
        page = await engine.read_page(where, limit=limit, cursor=cursor)
        found += _summaries(page.jobs, statuses)
        cursor = page.next_cursor
        if cursor is None or _reaches(found, wanted):
            return found


async def _oldest(engine: Engine, statuses: frozenset[int], wanted: int) -> list[public.JobSummary]:
    """The same from the other end."""
    where = Filter(type=TYPE, states=states_of(statuses))
    found: list[public.JobSummary] = []
    low, end = await _bounds(engine)
    width = READ_JOBS
    while low < end and not _reaches(found, wanted):
        jobs = await _between(engine, where, low, low + width)
        if jobs is None:
            width = max(width // 4, READ_JOBS)
            continue
        found += _summaries(reversed(jobs), statuses)
        low += width
        if len(jobs) < READ_JOBS // 2:
            width *= 2
    return found


async def _bounds(engine: Engine) -> tuple[int, int]:
    """From which seq on there are jobs, and up to below which."""
    newest = await engine.read_page(Filter(), limit=1)
    if not newest.jobs:
        return 0, 0
    nothing_below, low = 0, newest.jobs[0].seq
    end = low + 1
    while nothing_below < low:
        middle = (nothing_below + low + 1) // 2
        page = await engine.read_page(Filter(), limit=1, cursor=middle)
        if page.jobs:
            low = page.jobs[0].seq
        elif page.next_cursor is not None:
            low = page.next_cursor  # What was found there has been removed in this moment.
        else:
            nothing_below = middle
    return low, end


async def _between(engine: Engine, where: Filter, low: int, high: int) -> list[Job] | None:
    """Newest first, those with low ≤ seq < high; None where they are too many to read at a time."""
    jobs: list[Job] = []
    cursor: int | None = high
    while cursor is not None and cursor > low:
        page = await engine.read_page(where, limit=READ_JOBS, cursor=cursor)
        jobs += [job for job in page.jobs if job.seq >= low]
        if len(jobs) > READ_JOBS:
            return None
        cursor = page.next_cursor
    return jobs


def _summaries(jobs: Iterable[Job], statuses: frozenset[int]) -> list[public.JobSummary]:
    return [summary_of(job) for job in jobs if not statuses or status_of(job) in statuses]


def _reaches(found: list[public.JobSummary], wanted: int) -> bool:
    """Is the last that was read so far beyond the last that is wanted, in time, that none before it is missing?"""
    return len(found) >= wanted and abs(found[-1].created_at_ms - found[wanted - 1].created_at_ms) > SLACK_MS
