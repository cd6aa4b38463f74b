"""A job that was submitted, as its submitter holds it."""

from collections.abc import Callable
from typing import Generic, TypeVar
from uuid import UUID

from holdfast.app.runtime import Runtime
from holdfast.core.commands import CancelAnswer, CancelOutcome, Submitted
from holdfast.core.errors import JobCancelled, JobFailed, JobNotFound
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.core.times import Seconds, seconds_of
from holdfast.worker.capture import waiting_for

R_co = TypeVar("R_co", covariant=True)


class JobHandle(Generic[R_co]):
    """One job, by its ID; and what its function returns, once it has.

    ::

        handle = await resize.submit("a.png")
        print(handle.id, (await handle.job()).state)
        path = await handle.result(timeout=30)
    """

    __slots__ = ("_decode", "_runtime", "id", "is_duplicate")

    def __init__(self, runtime: Runtime, submitted: Submitted, decode: Callable[[bytes | None], R_co]) -> None:
        self._runtime = runtime
        self._decode = decode
        self.id: UUID = submitted.job_id
        self.is_duplicate: bool = submitted.is_duplicate
        """The key already stood for this job; nothing was created."""

    async def job(self) -> Job:
        """The job as it stands now. JobNotFound once its retention is over."""
        return await self._runtime.client.engine.get(self.id)

    async def result(self, timeout: Seconds | None = None) -> R_co:
        """Wait for the end, and give what the function returned.

        JobFailed where the job ended otherwise, JobCancelled where it was cancelled; TimeoutError after ``timeout``,
        which does nothing to the job.
        """
        with waiting_for(self.id):
            job = await self._runtime.client.engine.wait(self.id, timeout_seconds=_seconds(timeout))
        return self._result_of(job)

    async def cancel(self) -> CancelAnswer:
        """Ask for the job's end: at once where it waits, and told to its holder where it runs."""
        return _known(self.id, await self._runtime.client.engine.cancel([self.id]))

    def job_sync(self) -> Job:
        return self._runtime.call_sync(
            "job_sync", lambda client: client.engine.get(self.id), instead="await handle.job()"
        )

    def result_sync(self, timeout: Seconds | None = None) -> R_co:
        """``result`` for programs without an event loop."""
        with waiting_for(self.id):
            job = self._runtime.wait_sync(
                "result_sync", self.id, timeout_seconds=_seconds(timeout), instead="await handle.result()"
            )
        return self._result_of(job)

    def cancel_sync(self) -> CancelAnswer:
        answers = self._runtime.call_sync(
            "cancel_sync", lambda client: client.engine.cancel([self.id]), instead="await handle.cancel()"
        )
        return _known(self.id, answers)

    def _result_of(self, job: Job) -> R_co:
        match job.state:
            case State.COMPLETED:
                return self._decode(job.result)
            case State.CANCELLED:
                raise JobCancelled(job_id=job.id, state=job.state, failure=job.failure)
            case _:
                raise JobFailed(job_id=job.id, state=job.state, failure=job.failure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}{' (duplicate)' if self.is_duplicate else ''}>"


def _seconds(timeout: Seconds | None) -> float | None:
    return None if timeout is None else seconds_of(timeout)


def _known(job_id: UUID, answers: list[CancelAnswer]) -> CancelAnswer:
    (answer,) = answers
    if answer.outcome is CancelOutcome.NOT_FOUND:
        raise JobNotFound(job_id)
    return answer
