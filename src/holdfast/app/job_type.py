"""A function that runs as a job: calling it runs it here and now, ``submit`` has a worker run it.

The types are the function's own: a parameter specification without the Context, and what it returns. So a type checker
refuses a wrong argument where it stands, and knows what ``await handle.result()`` gives.
"""

import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from holdfast.app.client import Submission
from holdfast.app.handle import JobHandle
from holdfast.app.options import Given, SubmitOptions, id_of, queue_of, require_timeout, submit_fields
from holdfast.app.runtime import Runtime
from holdfast.app.signature import FunctionSignature
from holdfast.core.batches import JobColumns
from holdfast.core.commands import NewJob, Submitted
from holdfast.core.errors import UsageError
from holdfast.core.job import DEFAULT_TIMEOUTS
from holdfast.core.payload import Payload
from holdfast.engine.ids import new_id, new_ids
from holdfast.worker.context import Context
from holdfast.worker.handler import Handler

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionHandler(Handler):
    """A handler whose arguments are bound here, too."""

    signature: FunctionSignature


class Call(Generic[R_co]):
    """One job to be: its ID and its payload are fixed, so submitting it again cannot double it.

    ::

        await app.submit_many([resize.call(path) for path in paths])
        ctx.spawn(resize.call("a.png"))
        await chain(download.call(url), resize.call("a.png")).submit()
    """

    __slots__ = ("_id", "_runtime", "given", "handler", "payload")

    def __init__(self, runtime: Runtime, handler: FunctionHandler, given: Given, payload: Payload) -> None:
        self._runtime = runtime
        self._id: UUID | None = None
        self.handler = handler
        self.given = given
        self.payload = payload

    @property
    def id(self) -> UUID:
        return self._id or self.take_id(new_id())

    def take_id(self, fresh: UUID) -> UUID:
        """The ID it has, or else this one: many are made at once for less."""
        if self._id is None:
            self._id = fresh
        return self._id

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    def new_job(self) -> NewJob:
        return make_job(self.id, self.handler.name, self.payload, self.given)

    def handle(self, submitted: Submitted) -> JobHandle[R_co]:
        return JobHandle(self._runtime, submitted, self.handler.signature.decode_result)

    def __repr__(self) -> str:
        return f"<Call of {self.handler.name} {self.id}>"


def new_jobs(calls: Sequence[Call[Any]]) -> Sequence[NewJob]:
    """As columns where they are calls of one job type with the same options."""
    ids = [call.take_id(fresh) for call, fresh in zip(calls, new_ids(len(calls)), strict=True)]
    first = calls[0]
    job = first.new_job()
    if job.is_plain and all(call.handler is first.handler and call.given is first.given for call in calls):
        return JobColumns(job, ids, [call.payload for call in calls])
    return [call.new_job() for call in calls]


class Submittable(Generic[P, R]):
    """What a job type and one with options have in common."""

    def __init__(self, runtime: Runtime, handler: FunctionHandler, given: Given) -> None:
        self._runtime = runtime
        self._given = given
        self.handler = handler

    @property
    def name(self) -> str:
        """The job type, as the database has it."""
        return self.handler.name

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have a worker call the function with these arguments. Returns after the commit."""
        (submitted,) = await self._runtime.client.submit(self._submission(args, kwargs))
        return self._handle(submitted)

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """``submit`` for programs without an event loop."""
        submission = self._submission(args, kwargs)
        (submitted,) = self._runtime.call_sync(
            "submit_sync",
            lambda client: client.submit(submission),
            instead=f"await {self.name}.submit(…)",
            connection=submission.connection,
        )
        return self._handle(submitted)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A job to be: for ``submit_many``, for workflows, and for ``ctx.spawn``."""
        if self._given.connection is not None:
            raise UsageError("options(connection=…) is for submit; write: app.submit_many(calls, connection=…)")
        return Call(self._runtime, self.handler, self._given, self.handler.signature.bind(args, kwargs))

    def _submission(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Submission:
        job = make_job(new_id(), self.handler.name, self.handler.signature.bind(args, kwargs), self._given)
        return Submission(jobs=(job,), connection=self._given.connection)

    def _handle(self, submitted: Submitted) -> JobHandle[R]:
        return JobHandle(self._runtime, submitted, self.handler.signature.decode_result)


class BoundJobType(Submittable[P, R]):
    """A job type with the options of a submit: ``resize.options(delay=10, key="order-7")``."""

    def __repr__(self) -> str:
        return f"<{self.name} with options>"


class JobType(Submittable[P, R]):
    """What ``@app.job`` makes of a function.

    ::

        @app.job(queue="media")
        async def resize(ctx: Context, path: str, width: int = 800) -> str: ...

        handle = await resize.submit("a.png", width=300)
        later = await resize.options(delay=10, key="order-7", after=[handle]).submit("b.png")
    """

    def __init__(self, runtime: Runtime, handler: FunctionHandler, given: Given) -> None:
        super().__init__(runtime, handler, given)
        functools.update_wrapper(self, handler.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function itself, here: no job, no worker, no retry."""
        return self.handler.function(*args, **kwargs)

    def options(self, **options: Unpack[SubmitOptions]) -> BoundJobType[P, R]:
        """The same job type, with what holds for one submit: see SubmitOptions."""
        return BoundJobType(self._runtime, self.handler, self.given(options))

    def given(self, options: SubmitOptions) -> Given:
        """The job type's own settings with these over them."""
        given = submit_fields(options, base=self._given.fields, where=f"{self.name}.options()")
        require_timeout(
            given.fields.get("timeouts", DEFAULT_TIMEOUTS).execution,
            limit_seconds=self.handler.execution_seconds,
            what=f"a {self.name!r} job",
            remedy=f"shorten it, or raise the handler's own: @app.job(timeout=…) on {self.name}",
        )
        return given

    @property
    def queue(self) -> str:
        """Where its jobs go unless their submit says otherwise."""
        return queue_of(self._given.fields)

    def new_job(self) -> NewJob:
        """A job without arguments, for a periodic job."""
        return make_job(new_id(), self.name, self.handler.signature.bind((), {}), self._given)

    def handle(self, job: UUID | str) -> JobHandle[R]:
        """The handle of a job that was submitted earlier, perhaps by another program."""
        return self._handle(Submitted(id_of(job)))

    def __repr__(self) -> str:
        return f"<job type {self.name}>"


# The four kinds of functions differ in how they are called, and in nothing else.


class PlainJobType(JobType[P, R]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.handler.function(*args, **kwargs)
        return result


class AsyncJobType(JobType[P, R]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self.handler.function(*args, **kwargs)
        return coroutine


class PlainContextJobType(JobType[P, R]):
    def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.handler.function(context, *args, **kwargs)
        return result


class AsyncContextJobType(JobType[P, R]):
    def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self.handler.function(context, *args, **kwargs)
        return coroutine


def job_type_of(runtime: Runtime, handler: FunctionHandler, given: Given) -> JobType[Any, Any]:
    kinds: dict[tuple[bool, bool], type[JobType[Any, Any]]] = {
        (False, False): PlainJobType,
        (True, False): AsyncJobType,
        (False, True): PlainContextJobType,
        (True, True): AsyncContextJobType,
    }
    return kinds[handler.is_async, handler.signature.wants_context](runtime, handler, given)


def make_job(job_id: UUID, name: str, payload: Payload, given: Given) -> NewJob:
    job = NewJob(id=job_id, type=name, payload=payload, **given.fields)
    if job.tags:
        # Middleware may write to them.
        job.tags = dict(job.tags)
    return job


class JobDecorator:
    """``@app.job(…)``, waiting for its function."""

    def __init__(self, make: Callable[[Callable[..., Any]], JobType[Any, Any]]) -> None:
        self._make = make

    # The first that fits counts, which is what is meant: a coroutine function is also one that returns something.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextJobType[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> PlainContextJobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJobType[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> JobType[Any, Any]:
        return self._make(function)


AnyJobType = TypeVar("AnyJobType", bound=JobType[..., Any])


class CronDecorator:
    """``@app.cron(…)``, waiting for its function or job type."""

    def __init__(self, make: Callable[[Any], JobType[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, job_type: AnyJobType, /) -> AnyJobType: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextJobType[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> PlainContextJobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJobType[P, R]: ...
    def __call__(self, given: Any, /) -> Any:
        return self._make(given)
