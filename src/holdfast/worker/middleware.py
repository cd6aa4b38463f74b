"""One hook around submit and one around execute: enough for tracing, metrics and error reporting.

Middleware is given in the order in which it wraps: the first one is outermost. An app without any pays nothing.

MIDDLEWARE-1. ``submit`` may change the jobs it is given (tags, correlation ID) before it goes on; what it raises
    refuses them.
MIDDLEWARE-2. ``execute`` sees every attempt, wherever its handler runs. What it raises fails the attempt like the
    handler's own error would; its cancellation is the handler's.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from holdfast.core.commands import NewJob, Outcome, Submitted
from holdfast.worker.context import Context

Submit = Callable[[], Awaitable[tuple[Submitted, ...]]]
Execute = Callable[[], Awaitable[Outcome]]


@dataclass(slots=True, kw_only=True)
class Execution:
    """One attempt, as middleware sees it."""

    context: Context
    error: BaseException | None = None
    """What the handler raised; a handler in a child process leaves only the outcome's text."""


class Middleware:
    """Override what you need; the defaults only go on."""

    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:  # noqa: ARG002
        """Around the acceptance of jobs that are submitted together."""
        return await proceed()

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:  # noqa: ARG002
        """Around one attempt, on the worker's loop; ``proceed`` answers how it ended and raises nothing."""
        return await proceed()


def around_submit(
    middleware: Sequence[Middleware], jobs: Sequence[NewJob], innermost: Submit
) -> Awaitable[tuple[Submitted, ...]]:
    proceed = innermost
    for one in reversed(middleware):
        proceed = _bind_submit(one, jobs, proceed)
    return proceed()


def around_execute(middleware: Sequence[Middleware], execution: Execution, innermost: Execute) -> Awaitable[Outcome]:
    proceed = innermost
    for one in reversed(middleware):
        proceed = _bind_execute(one, execution, proceed)
    return proceed()


def _bind_submit(one: Middleware, jobs: Sequence[NewJob], proceed: Submit) -> Submit:
    return lambda: one.submit(jobs, proceed)


def _bind_execute(one: Middleware, execution: Execution, proceed: Execute) -> Execute:
    return lambda: one.execute(execution, proceed)
