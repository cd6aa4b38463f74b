"""What a test is told of jobs that failed: which, how they stand, and what their handlers raised."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.core.failures import Failure
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.testing.words import call_text, listed, plural

HINT: Final = "(where the failure is what you test: drain(raise_failures=False), and look at what it returns)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    job: Job
    failure: Failure | None
    """Of the last attempt, as the database has it."""
    error: BaseException | None
    """What the handler raised; None for one in a child process, for a timeout, and where no handler ran."""
    now: datetime

    def __str__(self) -> str:
        return f"{call_text(self.job.type, self.job.payload)} {self._stands}{self._because}"

    @property
    def _stands(self) -> str:
        job = self.job
        match job.state:
            case State.RETRYING if job.due_at is not None:
                seconds = max(0.0, (job.due_at - self.now).total_seconds())
                return f"failed at attempt {job.attempt} of {job.retry.max_attempts}, the next is due in {seconds:g} s"
            case State.FAILED:
                return "ended FAILED, without another attempt"
            case _:
                return f"ended {job.state} after {plural(job.attempt, 'attempt')}"

    @property
    def _because(self) -> str:
        failure = self.failure
        if failure is None:
            return ""
        kind = failure.error_type or str(failure.category)
        return f": {kind}: {failure.message}" if failure.message else f": {kind}"


class HandlerFailed(AssertionError):
    """A drain left failed jobs behind. What the first one's handler raised is this error's cause."""

    def __init__(self, failed: Sequence[FailedJob]) -> None:
        self.failed = tuple(failed)
        entries = [_entry(one, is_first=one is failed[0]) for one in failed]
        super().__init__("\n".join([f"{plural(len(failed), 'job')} failed:", *listed(entries), HINT]))


def _entry(one: FailedJob, *, is_first: bool) -> str:
    # The first one's trace is shown as that of the cause.
    trace = "" if one.failure is None or (is_first and one.error is not None) else one.failure.trace
    return f"{one}\n{textwrap.indent(trace.rstrip(), '    ')}" if trace else str(one)


def require_none(failed: Sequence[FailedJob]) -> None:
    """HandlerFailed where there is one."""
    if failed:
        raise HandlerFailed(failed) from failed[0].error
