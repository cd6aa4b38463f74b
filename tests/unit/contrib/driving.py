"""Around a submit and around an attempt, as the app and the worker go; with real contexts, without a store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from holdfast.core.commands import NewJob, Outcome, Submitted
from holdfast.core.job import Progress
from holdfast.worker.context import Context
from holdfast.worker.middleware import Execution, Middleware, around_execute, around_submit

JOB_ID = UUID("6c9f4e60-3f0e-4d3c-9a68-0f4b7c6f6c11")


class Silence:
    """A channel that nobody listens to."""

    def progress(self, progress: Progress) -> None:
        pass

    async def checkpoint(self, data: bytes) -> None:
        pass

    def checkpoint_sync(self, data: bytes) -> None:
        pass

    def is_cancelled(self) -> bool:
        return False


def context(**overrides: Any) -> Context:
    given = {
        "channel": Silence(),
        "job_id": JOB_ID,
        "type": "resize",
        "queue": "media",
        "attempt": 1,
        "max_attempts": 3,
        "attempt_id": uuid4(),
        "previous_attempt_id": None,
    }
    return Context(**{**given, **overrides})


def new_job(**overrides: Any) -> NewJob:
    return NewJob(**{"id": uuid4(), "type": "resize", "queue": "media", **overrides})


async def submit(
    middleware: Middleware, jobs: Sequence[NewJob], *, is_duplicate: bool = False, error: Exception | None = None
) -> tuple[Submitted, ...]:
    async def accept() -> tuple[Submitted, ...]:
        if error is not None:
            raise error
        return tuple(Submitted(job.id, is_duplicate=is_duplicate) for job in jobs)

    return await around_submit([middleware], jobs, accept)


async def execute(
    middleware: Middleware,
    outcome: Outcome | BaseException,
    *,
    error: BaseException | None = None,
    handler: Callable[[], Awaitable[None]] | None = None,
    **overrides: Any,
) -> Outcome:
    """One attempt that ends with ``outcome``, or out of which a middleware further in raises."""
    execution = Execution(context=context(**overrides))

    async def innermost() -> Outcome:
        if handler is not None:
            await handler()
        execution.error = error
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return await around_execute([middleware], execution, innermost)
