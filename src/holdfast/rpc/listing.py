"""ListJobs on the durable engine.

The engine lists newest first and goes on from a cursor; v1 wants an offset, and an order by (created_at_ms, job_id) in
both directions. So a page is found by reading from the newest job on: newest first, as far as the page reaches; oldest
first, all there are. No snapshot: what comes and moves meanwhile may show twice or not at all.

The engine's order is that in which jobs were written. Where several servers write to one database, it may differ from
that of the time by the length of a transaction: so a little further is read than the page reaches.
"""

from typing import Final

from holdfast.core.commands import Filter
from holdfast.core.ports import Store
from holdfast.rpc import limits
from holdfast.rpc.engine_jobs import TYPE, states_of, status_of, summary_of
from holdfast.rpc.generated import taskqueue_public_pb2 as public

READ_JOBS: Final = 200
"""At a time: they come with their results, which may be large."""
SLACK_MS: Final = 250


async def list_jobs(
    store: Store, statuses: frozenset[int], *, offset: int, size: int, sort: int
) -> public.ListJobsResponse:
    is_ascending = sort == public.CREATED_AT_ASC
    # One more than the page tells whether there is another one.
    wanted = offset + size + 1
    jobs = await _newest(store, statuses, None if is_ascending else wanted)
    sign = 1 if is_ascending else -1
    jobs.sort(key=lambda job: (sign * job.created_at_ms, job.job_id))
    return public.ListJobsResponse(
        jobs=jobs[offset : offset + size],
        page=public.PageResponse(next_page_token=str(offset + size) if len(jobs) > offset + size else ""),
    )


async def _newest(store: Store, statuses: frozenset[int], wanted: int | None) -> list[public.JobSummary]:
    """At least so many, and all that might stand before the last of them; None: all there are."""
    where = Filter(type=TYPE, states=states_of(statuses))
    found: list[public.JobSummary] = []
    cursor: int | None = None
    while True:
        limit = READ_JOBS if wanted is None else min(READ_JOBS, max(wanted - len(found), limits.PAGE_SIZE_DEFAULT))
        page = await store.read_page(where, limit=limit, cursor=cursor)
        found += [summary_of(job) for job in page.jobs if not statuses or status_of(job) in statuses]
        cursor = page.next_cursor
        if cursor is None or (wanted is not None and _reaches(found, wanted)):
            return found


def _reaches(found: list[public.JobSummary], wanted: int) -> bool:
    return len(found) >= wanted and found[-1].created_at_ms < found[wanted - 1].created_at_ms - SLACK_MS
