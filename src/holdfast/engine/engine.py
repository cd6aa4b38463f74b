"""What a front door holds: everything that can be asked of Holdfast, over a store that it opens and closes.

Workers are no front door: whoever made the store gives it to them, and they speak to it claim by claim.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

from holdfast.core import limits
from holdfast.core.checks import require_valid_ids, require_valid_page, require_valid_queue, require_valid_submit
from holdfast.core.commands import (
    CancelAnswer,
    CronState,
    Filter,
    Page,
    QueueStats,
    ReplayAnswer,
    ReplayPage,
    Submit,
    Submitted,
    WorkerInfo,
)
from holdfast.core.errors import JobNotFound
from holdfast.core.examination import Examination
from holdfast.core.job import Attempt, Job
from holdfast.core.payload import check_limit
from holdfast.core.ports import Store
from holdfast.engine.access import Access
from holdfast.engine.doctor import Doctor
from holdfast.engine.results import ResultWaiter, pauses
from holdfast.engine.submit import Submitter
from holdfast.engine.why import why


class Engine:
    def __init__(
        self,
        store: Store,
        *,
        submission_seconds: float = limits.DEFAULT_SUBMISSION_SECONDS,
        payload_limit_bytes: int = limits.DEFAULT_PAYLOAD_BYTES,
    ) -> None:
        self._store = store
        self.api_keys = Access(store)
        self._payload_limit_bytes = check_limit(payload_limit_bytes)
        self._submitter = Submitter(store, timeout_seconds=submission_seconds)
        self._results = ResultWaiter(store)

    async def open(self) -> None:
        """Connect. Unavailable where the database is away: it may be tried again."""
        await self._store.open()

    async def close(self) -> None:
        """Whoever waits for a result is told."""
        self._results.close()
        await self._store.close()

    # submit

    async def submit(self, submit: Submit, *, connection: Any = None) -> tuple[Submitted, ...]:
        """Jobs that are accepted together or not at all; callers at the same time share a call."""
        require_valid_submit(submit, payload_limit_bytes=self._payload_limit_bytes)
        return await self._submitter.submit(submit, connection=connection)

    # manage

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        require_valid_ids(ids)
        return await self._store.cancel(ids)

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        require_valid_ids(ids)
        return await self._store.replay(ids)

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        """A page of the dead jobs that match; its cursor leads to the next page."""
        require_valid_page(where, limit=limit)
        return await self._store.replay_where(where, limit=limit, cursor=cursor)

    async def pause(self, queue: str) -> None:
        require_valid_queue(queue)
        await self._store.pause(queue)

    async def resume(self, queue: str) -> None:
        require_valid_queue(queue)
        await self._store.resume(queue)

    # read

    async def get(self, job_id: UUID) -> Job:
        """Raises JobNotFound."""
        (job,) = await self.read([job_id])
        if job is None:
            raise JobNotFound(job_id)
        return job

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        require_valid_ids(ids)
        return await self._store.read(ids)

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        require_valid_page(where, limit=limit)
        return await self._store.read_page(where, limit=limit, cursor=cursor)

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        require_valid_ids([job_id])
        return await self._store.read_attempts(job_id)

    async def read_queues(self) -> list[QueueStats]:
        return await self._store.read_queues()

    async def read_workers(self) -> list[WorkerInfo]:
        return await self._store.read_workers()

    async def read_cron(self) -> CronState:
        return await self._store.read_cron()

    async def why(self, job_id: UUID) -> str:
        """In one sentence, why the job is not running, or that it is."""
        require_valid_ids([job_id])
        return await why(self._store, job_id)

    # wait

    async def wait(self, job_id: UUID, *, timeout_seconds: float | None) -> Job:
        """The job once it has ended; TimeoutError, which says where it stands, where that takes longer."""
        if timeout_seconds is not None and timeout_seconds <= 0:
            return _ended(await self.get(job_id))
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._results.wait(job_id)
        except TimeoutError:
            raise TimeoutError(f"job {job_id} has not ended within {timeout_seconds:g} s") from None

    async def follow(self, job_id: UUID, *, timeout_seconds: float | None) -> AsyncIterator[Job]:
        """The job, look after look, until it has ended or the time is over."""
        loop = asyncio.get_running_loop()
        ends_at = None if timeout_seconds is None else loop.time() + timeout_seconds
        for pause_seconds in pauses():
            job = await self.get(job_id)
            yield job
            if job.state.is_terminal or (ends_at is not None and loop.time() >= ends_at):
                return
            await asyncio.sleep(pause_seconds)

    # examine

    def doctor(self, examination: Examination, *, patience_seconds: float, say: Callable[[str], None]) -> Doctor:
        return Doctor(store=self._store, examination=examination, patience_seconds=patience_seconds, say=say)


def _ended(job: Job) -> Job:
    if not job.state.is_terminal:
        raise TimeoutError(f"job {job.id} has not ended: it is {job.state}")
    return job
