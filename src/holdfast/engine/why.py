"""Why is this job not running? Gathers what ``core/why.py`` decides from."""

from typing import Final
from uuid import UUID

from holdfast.core.commands import Place
from holdfast.core.dependencies import Dependency
from holdfast.core.errors import JobNotFound
from holdfast.core.job import Job
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.core.why import Facts, explain

TRIES: Final = 3
JOBS_A_READ: Final = 50
"""Whole jobs are read, with their payloads, where only their state is wanted: a few at a time."""


async def why(store: Store, job_id: UUID) -> str:
    """One sentence. Raises JobNotFound."""
    return explain(await gather(store, job_id))


async def gather(store: Store, job_id: UUID) -> Facts:
    job, place = await _read(store, job_id)
    waits_for: list[tuple[Dependency, State]] = []
    if job.state is State.PENDING:
        for start in range(0, len(job.dependencies), JOBS_A_READ):
            part = job.dependencies[start : start + JOBS_A_READ]
            parents = await store.read([dependency.job_id for dependency in part])
            waits_for += [(one, parent.state) for one, parent in zip(part, parents, strict=True) if parent is not None]
    attempts = await store.read_attempts(job_id) if job.state is State.RETRYING else []
    return Facts(
        job=job,
        place=place,
        workers=() if job.state.is_terminal else await store.read_workers(),
        waits_for=waits_for,
        last_failure=attempts[-1].failure if attempts else None,
    )


async def _read(store: Store, job_id: UUID) -> tuple[Job, Place]:
    """Two reads that agree, unless the job moves on faster than it can be asked about."""
    for tries_left in reversed(range(TRIES)):
        (job,), place = await store.read([job_id]), await store.read_place(job_id)
        if job is None or place is None:
            raise JobNotFound(job_id)
        if (job.state is State.SCHEDULED) is (place.ahead is not None) or not tries_left:
            return job, place
    raise AssertionError("the last try returns or raises")
