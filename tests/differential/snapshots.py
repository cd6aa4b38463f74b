"""Everything that can be read, made comparable: numbers that stores are free to choose are left out.

``seq`` and cursors differ between stores; the order they make does not, and is kept as the order of lists.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import Filter, WorkerInfo
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.job import ClaimedJob, Job, Lease
from tests.differential.sides import Side

MAX_DIFFERENCES: Final = 20
MAX_PAGES: Final = 1000


def comparable(value: Any) -> Any:
    """An answer without the numbers that are a store's own."""
    match value:
        case Lease():
            return replace(value, seq=0)
        case Job():
            return replace(value, seq=0, tags=dict(value.tags), lease=comparable(value.lease))
        case ClaimedJob():
            return (replace(value, encoded_options=None, lease=comparable(value.lease)), value.options)
        case InvalidInput():
            return (type(value).__name__, frozenset(value.faults))
        case HoldfastError():
            return (type(value).__name__, vars(value), str(value))
        case list() | tuple():
            return [comparable(item) for item in value]
        case _:
            return value


async def answer_of(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What a verb returns, or the error it raises."""
    try:
        return await ask()
    except HoldfastError as refusal:
        return refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    jobs: tuple[Job, ...]
    """Newest first."""
    found: tuple[UUID, ...]
    """Of all that ever were, those that ``read`` still finds."""
    attempts: dict[UUID, Any]
    upstream: dict[UUID, Any]
    places: dict[UUID, Any]
    queues: Any
    workers: Any
    cron: Any


async def take_snapshot(side: Side, ids: Collection[UUID], *, details: Collection[UUID]) -> Snapshot:
    """All jobs; ``ids`` are also read one by one, ``details`` names those whose attempts and upstream are read."""
    store = side.store
    jobs = [
        job
        async for page in pages(lambda c: store.read_page(Filter(), limit=limits.MAX_PAGE_JOBS, cursor=c))
        for job in page.jobs
    ]
    by_id = dict(zip(ids, await store.read(list(ids)), strict=True)) if ids else {}
    listed = {job.id: job for job in jobs}
    for job_id, job in by_id.items():
        assert job == listed.get(job_id), f"{side.name}: read and read_page: {differences(listed.get(job_id), job)}"
    queues = await store.read_queues()
    return Snapshot(
        jobs=tuple(comparable(job) for job in jobs),
        found=tuple(job_id for job_id, job in by_id.items() if job is not None),
        attempts={job_id: await store.read_attempts(job_id) for job_id in details},
        upstream={job_id: await store.read_upstream(job_id) for job_id in details},
        places={job_id: await store.read_place(job_id) for job_id in details},
        queues=[replace(queue, counts={s: n for s, n in queue.counts.items() if n}) for queue in queues],
        workers=_comparable_workers(await store.read_workers(), side.clock.now()),
        cron=await store.read_cron(),
    )


def _comparable_workers(workers: list[WorkerInfo], now: datetime) -> list[WorkerInfo]:
    """Which tick forgets a worker that is long gone is the store's own affair; so is since when it is known again."""
    oldest = now - timedelta(seconds=limits.WORKER_RETENTION_SECONDS)
    kept = [worker for worker in workers if not worker.is_lost or worker.seen_at >= oldest or worker.running]
    return sorted((replace(worker, registered_at=oldest) for worker in kept), key=lambda worker: worker.id)


async def pages(read: Callable[[int | None], Awaitable[Any]]) -> AsyncIterator[Any]:
    """To the last one. A page may be short, even empty, so only their sum is compared."""
    cursor: int | None = None
    for _ in range(MAX_PAGES):
        page = await read(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
    raise AssertionError(f"still a cursor after {MAX_PAGES} pages")


def differences(expected: Any, got: Any, path: str = "") -> list[str]:
    """Where two comparable things differ, field by field."""
    if expected == got:
        return []
    # asyncpg has a UUID of its own, a subclass.
    if not isinstance(got, type(expected)):
        return [f"{path}: expected {expected!r}, got {got!r}"]
    if isinstance(expected, list | tuple):
        found = [] if len(expected) == len(got) else [f"{path}: expected {len(expected)} items, got {len(got)}"]
        for n, (one, other) in enumerate(zip(expected, got, strict=False)):
            found += differences(one, other, f"{path}[{n}]")
        return found[:MAX_DIFFERENCES]
    if isinstance(expected, dict):
        keys = list(dict.fromkeys([*expected, *got]))
        return [d for key in keys for d in differences(expected.get(key), got.get(key), f"{path}[{key}]")]
    if is_dataclass(expected) and not isinstance(expected, type):
        names = [field.name for field in fields(expected)]
        name = f"{path}({expected.id})" if isinstance(expected, Job) else path
        return [
            d for field in names for d in differences(getattr(expected, field), getattr(got, field), f"{name}.{field}")
        ]
    return [f"{path}: expected {expected!r}, got {got!r}"]
