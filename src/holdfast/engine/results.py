"""Waiting for jobs to end: one reader for all who wait on a loop.

RESULT-1. Jobs whose time to look has come are read together, in one call.
RESULT-2. A job is looked at at once, again after a few milliseconds, then less and less often, at least four times a
    second.
RESULT-3. Nobody waits: nothing runs, no timer and no task.
RESULT-4. A store that is away for a while delays an answer and does not replace it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from holdfast.core.errors import JobNotFound, Unavailable, UsageError
from holdfast.core.job import Job
from holdfast.core.ports import Store

FIRST_SECONDS: Final = 0.002
MAX_SECONDS: Final = 0.25
GROWTH: Final = 1.5
READ_JOBS: Final = 1000
"""How many jobs one read asks for; the rest follow in the next, at once."""


def pauses() -> Iterator[float]:
    """Between the looks at one job, for ever (RESULT-2)."""
    seconds = FIRST_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * GROWTH, MAX_SECONDS)


@dataclass(slots=True)
class _Awaited:
    future: asyncio.Future[Job]
    due_at: float
    interval_seconds: float = FIRST_SECONDS
    waiters: int = 0

    def postpone(self, now: float) -> None:
        self.due_at = now + self.interval_seconds
        self.interval_seconds = min(self.interval_seconds * GROWTH, MAX_SECONDS)


@dataclass(slots=True)
class ResultWaiter:
    store: Store
    _awaited: dict[UUID, _Awaited] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.Task[None] | None = None

    async def wait(self, job_id: UUID) -> Job:
        """The job once it has ended. JobNotFound where there is none."""
        loop = asyncio.get_running_loop()
        awaited = self._awaited.get(job_id)
        if awaited is None:
            awaited = self._awaited[job_id] = _Awaited(loop.create_future(), loop.time())
        awaited.waiters += 1
        self._look_at(awaited.due_at)
        try:
            return await asyncio.shield(awaited.future)
        finally:
            awaited.waiters -= 1
            if not awaited.waiters:
                self._forget(job_id, awaited)

    def close(self) -> None:
        """Whoever still waits is told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reading is not None:
            self._reading.cancel()
        self._fail(list(self._awaited), UsageError("the app was closed while this result was awaited"))

    def _look_at(self, when: float) -> None:
        if self._reading is not None:
            return
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._start_reading)

    def _start_reading(self) -> None:
        self._timer = None
        self._reading = asyncio.get_running_loop().create_task(self._read_and_go_on())

    async def _read_and_go_on(self) -> None:
        try:
            await self._read()
        finally:
            self._reading = None
        if self._awaited:
            self._look_at(min(one.due_at for one in self._awaited.values()))

    async def _read(self) -> None:
        now = asyncio.get_running_loop().time()
        # Half an interval early is early enough: jobs of about the same age are read together.
        due = [one for one, it in self._awaited.items() if it.due_at - it.interval_seconds / 2 <= now][:READ_JOBS]
        try:
            found = await self.store.read(due)
        except Unavailable:
            found = []
            for job_id in due:
                self._postpone(job_id)
        except Exception as error:
            self._fail(due, error)
            return
        for job_id, job in zip(due, found, strict=False):
            self._meet(job_id, job)

    def _meet(self, job_id: UUID, job: Job | None) -> None:
        awaited = self._awaited.get(job_id)
        if awaited is None:
            return
        if job is None:
            self._fail([job_id], JobNotFound(job_id))
        elif job.state.is_terminal:
            self._forget(job_id, awaited)
            if not awaited.future.done():
                awaited.future.set_result(job)
        else:
            self._postpone(job_id)

    def _postpone(self, job_id: UUID) -> None:
        awaited = self._awaited.get(job_id)
        if awaited is not None:
            awaited.postpone(asyncio.get_running_loop().time())

    def _fail(self, ids: Iterable[UUID], error: Exception) -> None:
        for job_id in ids:
            awaited = self._awaited.pop(job_id, None)
            if awaited is not None and not awaited.future.done():
                awaited.future.set_exception(error)

    def _forget(self, job_id: UUID, awaited: _Awaited) -> None:
        # By then, somebody may wait for the job again.
        if self._awaited.get(job_id) is awaited:
            del self._awaited[job_id]
        if not self._awaited and self._timer is not None:
            self._timer.cancel()
            self._timer = None
