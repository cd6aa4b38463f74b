"""What one event loop uses of an app: an open engine, its store for workers, and middleware around submits."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.core import limits
from holdfast.core.commands import NewJob, Submit, Submitted
from holdfast.core.errors import Unavailable
from holdfast.core.ports import Store
from holdfast.engine.engine import Engine
from holdfast.worker.middleware import Middleware, around_submit

RETRY_FIRST_SECONDS: Final = 0.05
RETRY_MAX_SECONDS: Final = 1.0


@dataclass(slots=True, kw_only=True)
class Submission:
    """Jobs that are accepted together or not at all. Their IDs are made, so that a repeat cannot double them."""

    jobs: Sequence[NewJob]
    is_keyed_as_one: bool = False
    connection: Any = None


class Client:
    def __init__(
        self,
        engine: Engine,
        *,
        store: Store,
        middleware: Sequence[Middleware] = (),
        submission_seconds: float = limits.DEFAULT_SUBMISSION_SECONDS,
    ) -> None:
        self.engine = engine
        self.store = store
        """For workers, and for nobody else."""
        self._middleware = tuple(middleware)
        self._submission_seconds = submission_seconds

    async def submit(self, submission: Submission) -> tuple[Submitted, ...]:
        if not self._middleware:
            return await self._accept(submission)
        # Middleware may write to the jobs.
        written = replace(submission, jobs=tuple(submission.jobs))
        return await around_submit(self._middleware, written.jobs, lambda: self._accept(written))

    async def _accept(self, submission: Submission) -> tuple[Submitted, ...]:
        submit = Submit(jobs=submission.jobs, is_keyed_as_one=submission.is_keyed_as_one)
        if submission.connection is not None:
            return await self.engine.submit(submit, connection=submission.connection)
        ends_at = asyncio.get_running_loop().time() + self._submission_seconds
        try:
            return await self.engine.submit(submit)
        except Unavailable as error:
            return await self._repeat(submit, error, ends_at=ends_at)

    async def _repeat(self, submit: Submit, error: Unavailable, *, ends_at: float) -> tuple[Submitted, ...]:
        """A store that was away for a moment is asked again, until the submission timeout is over."""
        pause_seconds = RETRY_FIRST_SECONDS
        try:
            async with asyncio.timeout_at(ends_at):
                while True:
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, RETRY_MAX_SECONDS)
                    try:
                        return await self.engine.submit(submit)
                    except Unavailable as again:
                        error = again
        except TimeoutError:
            raise error from None
