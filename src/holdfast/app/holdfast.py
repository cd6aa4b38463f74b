"""The app: a database, the functions that run as its jobs, and everything a program does with them."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from holdfast.app.client import Submission
from holdfast.app.definitions import Calendar, Definitions
from holdfast.app.handle import JobHandle
from holdfast.app.job_type import (
    AsyncContextJobType,
    AsyncJobType,
    Call,
    CronDecorator,
    JobDecorator,
    JobType,
    PlainContextJobType,
    PlainJobType,
    make_job,
    new_jobs,
)
from holdfast.app.management import JobId, Management
from holdfast.app.options import (
    Given,
    JobOptions,
    PeriodicOptions,
    SubmitOptions,
    id_of,
    job_fields,
    require_known,
    require_timeout,
    submit_fields,
)
from holdfast.app.runtime import Runtime
from holdfast.app.workflow import put_keys, require_one_runtime
from holdfast.core import limits
from holdfast.core.checks import require_valid_tick
from holdfast.core.commands import NewJob, Submitted, Tick
from holdfast.core.errors import Fault, InvalidInput, UsageError
from holdfast.core.failures import PermanentError
from holdfast.core.job import DEFAULT_TIMEOUTS, AttemptLog
from holdfast.core.limits import DEFAULT_QUEUE
from holdfast.core.payload import EMPTY, Payload, check_limit
from holdfast.core.ports import LogStore, Store
from holdfast.core.times import Seconds, seconds_of
from holdfast.engine.engine import Engine
from holdfast.engine.ids import new_id
from holdfast.wiring import (
    DEFAULT_URL,
    URL_VARIABLE,
    create_delivery,
    create_log_store,
    find_log_url,
    settled_log_url,
    settled_url,
    without_password,
)
from holdfast.worker.context import Context
from holdfast.worker.handler import Registry
from holdfast.worker.middleware import Middleware
from holdfast.worker.options import Queues, WorkerOptions
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

P = ParamSpec("P")
R = TypeVar("R")


class Holdfast(Management):
    """A job queue in a database.

    ::

        app = Holdfast("sqlite:///jobs.db")


        @app.job
        async def add(a: int, b: int) -> int:
            return a + b


        async with app, app.worker():
            handle = await add.submit(1, 2)
            print(await handle.result(timeout=10))

    ``url`` is ``memory://``, ``sqlite:///file`` or ``postgresql://…``; without one, ``$HOLDFAST_URL`` or
    ``./holdfast.db``. ``logs`` says where execution logs go: a folder, ``s3://bucket/prefix`` or ``off``; without it,
    ``$HOLDFAST_LOGS`` or a folder beside the database. Relative paths are those of the moment the app is made, wherever
    the program goes later. ``permanent`` names exceptions that are not worth another
    attempt, ``middleware`` what wraps every submit and every attempt, the first outermost. The app's workers keep
    COMPLETED and CANCELLED jobs for ``completed_retention`` after they have ended, FAILED and DEAD_LETTER ones for
    ``dead_retention``. Times are seconds or timedelta, sizes bytes.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        logs: str | None = None,
        permanent: Iterable[type[BaseException]] = (),
        middleware: Sequence[Middleware] = (),
        payload_limit: int = limits.DEFAULT_PAYLOAD_BYTES,
        result_limit: int = limits.DEFAULT_RESULT_BYTES,
        execution_limit: Seconds = limits.DEFAULT_EXECUTION_SECONDS,
        submission_timeout: Seconds = limits.DEFAULT_SUBMISSION_SECONDS,
        completed_retention: Seconds = limits.DEFAULT_COMPLETED_RETENTION_SECONDS,
        dead_retention: Seconds = limits.DEFAULT_DEAD_RETENTION_SECONDS,
    ) -> None:
        self.url = settled_url(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
        self._log_url = settled_log_url(find_log_url(logs, self.url))
        self._log_store: LogStore | None = None
        self._tick = Tick(
            completed_retention_seconds=seconds_of(completed_retention),
            dead_retention_seconds=seconds_of(dead_retention),
        )
        require_valid_tick(self._tick)
        self._runtime = Runtime(
            self.url,
            middleware=middleware,
            submission_seconds=seconds_of(submission_timeout),
            payload_limit_bytes=check_limit(payload_limit),
        )
        self._definitions = Definitions(
            self._runtime,
            permanent=permanent,
            result_limit_bytes=result_limit,
            execution_limit_seconds=seconds_of(execution_limit),
        )

    @property
    def registry(self) -> Registry:
        """The handlers, by job type: what a worker of this app can run."""
        return self._definitions.registry

    @property
    def crons(self) -> Sequence["CronEntry"]:
        """The periodic jobs that a worker of this app fires."""
        return tuple(self._definitions.crons.values())

    @property
    def middleware(self) -> Sequence[Middleware]:
        """What wraps every submit and every attempt, the first outermost."""
        return self._runtime.middleware

    @property
    def payload_limit(self) -> int:
        """Bytes."""
        return self._runtime.payload_limit_bytes

    # open and close

    @property
    def engine(self) -> Engine:
        """What every front door asks; UsageError where the app is not open."""
        return self._runtime.client.engine

    @property
    def store(self) -> Store:
        """The open store, for workers; UsageError where the app is not open. Everybody else asks the engine."""
        return self._runtime.client.store

    async def open(self) -> None:
        """Connect. Counted: every ``open`` wants its ``close``. ``async with app:`` does both."""
        await self._runtime.open()

    async def close(self) -> None:
        await self._runtime.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def opened_on(self, store: Store) -> AbstractAsyncContextManager[None]:
        """Open on this store instead of the URL's; the app opens and closes it. For tests."""
        return self._runtime.opened_on(store)

    @contextmanager
    def on_store(self, store: Store, *, logs: LogStore) -> Iterator[None]:
        """Whoever opens the app meanwhile finds this store and these logs, and not the URL's. For tests."""
        with self._runtime.on_store(store):
            previous, self._log_store = self._log_store, logs
            try:
                yield
            finally:
                self._log_store = previous

    @property
    def open_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the app is open on, if it is."""
        return self._runtime.open_loop

    def close_sync(self) -> None:
        """End the thread behind the sync twins; the next one starts it again. The end of the program does it, too."""
        self._runtime.close_sync()

    # jobs

    @overload
    def job(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextJobType[P, R]: ...
    @overload
    def job(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobType[P, R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> PlainContextJobType[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> PlainJobType[P, R]: ...
    @overload
    def job(self, function: None = None, /, **options: Unpack[JobOptions]) -> JobDecorator: ...
    def job(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[JobOptions]
    ) -> JobType[Any, Any] | JobDecorator:
        """Make a function a job type: ``@app.job`` or ``@app.job(queue="media", timeout=60)``; see JobOptions.

        A coroutine function runs on the worker's loop, a plain one in a thread, and either with
        ``isolation="process"`` in a child process that is killed at its timeout. A first parameter annotated with
        Context is given by the worker; all others are the job's payload.
        """
        require_known(options, JobOptions, where="@app.job()")
        if function is None:
            return JobDecorator(lambda given: self._definitions.add(given, options))
        return self._definitions.add(function, options)

    def cron(
        self, expression: str, *, timezone: str = "UTC", name: str | None = None, **options: Unpack[PeriodicOptions]
    ) -> CronDecorator:
        """Run a function, or a job type, by the calendar: five fields, minute hour day month weekday.

        ::

            @app.cron("*/5 * * * *", timezone="Europe/Berlin", queue="media")
            async def clean_up() -> None: ...

        Each slot fires once, however many workers run. Of the slots that nobody was there for, the newest fires once,
        as soon as somebody is. ``name`` tells several calendars of one job type apart.
        """
        require_known(options, PeriodicOptions, where="@app.cron()")
        calendar = Calendar(expression=expression, timezone=timezone, name=name)
        return CronDecorator(lambda given: self._definitions.add_periodic(given, calendar, options))

    # submit

    async def submit(
        self,
        type: str,  # noqa: A002 - the job's field
        payload: Mapping[str, Any] | Payload | None = None,
        **options: Unpack[SubmitOptions],
    ) -> JobHandle[Any]:
        """Submit by the job type's name, for programs that don't have the function.

        ::

            await app.submit("resize", {"path": "a.png"}, delay=10)
        """
        submission = self._submission(type, payload, options)
        (submitted,) = await self._runtime.client.submit(submission)
        return self._handle(type, submitted)

    def submit_sync(
        self,
        type: str,  # noqa: A002 - the job's field
        payload: Mapping[str, Any] | Payload | None = None,
        **options: Unpack[SubmitOptions],
    ) -> JobHandle[Any]:
        """``submit`` for programs without an event loop."""
        submission = self._submission(type, payload, options)
        (submitted,) = self._runtime.call_sync(
            "submit_sync",
            lambda client: client.submit(submission),
            instead="await app.submit(…)",
            connection=submission.connection,
        )
        return self._handle(type, submitted)

    async def submit_many(
        self, calls: Iterable[Call[R]], *, key: str | None = None, connection: Any = None
    ) -> list[JobHandle[R]]:
        """Accept all of these jobs, or none, in few round trips.

        ::

            handles = await app.submit_many([resize.call(path) for path in paths], key="order-7")

        With ``key`` a repeat finds all of them: the jobs have the keys ``key#0``, ``key#1``, …
        """
        given = tuple(calls)
        if not given:
            return []
        batch = self._submission_of(self._new_jobs(given), key, connection)
        return _handles_of(given, await self._runtime.client.submit(batch))

    def submit_many_sync(
        self, calls: Iterable[Call[R]], *, key: str | None = None, connection: Any = None
    ) -> list[JobHandle[R]]:
        """``submit_many`` for programs without an event loop."""
        given = tuple(calls)
        if not given:
            return []
        batch = self._submission_of(self._new_jobs(given), key, connection)
        answers = self._runtime.call_sync(
            "submit_many_sync",
            lambda client: client.submit(batch),
            instead="await app.submit_many(…)",
            connection=connection,
        )
        return _handles_of(given, answers)

    def handle(self, job: JobId) -> JobHandle[Any]:
        """The handle of a job that was submitted earlier, perhaps by another program. See also JobType.handle."""
        return JobHandle(self._runtime, Submitted(id_of(job)), _decode_any)

    def _new_jobs(self, calls: Sequence[Call[Any]]) -> Sequence[NewJob]:
        if require_one_runtime(calls) is not self._runtime:
            raise UsageError("these calls belong to another app; submit them there")
        return new_jobs(calls)

    def _submission_of(self, jobs: Sequence[NewJob], key: str | None, connection: Any) -> Submission:
        if key is not None:
            jobs = list(jobs)
            put_keys(jobs, key)
        return Submission(jobs=jobs, is_keyed_as_one=key is not None, connection=connection)

    def _submission(self, name: str, payload: Mapping[str, Any] | Payload | None, options: SubmitOptions) -> Submission:
        known = self._definitions.job_types.get(name)
        body = _payload_of(payload)
        if known is not None:
            given = known.given(options)
            _require_fit(known, body)
        else:
            given = self._given(options)
        return Submission(jobs=(make_job(new_id(), name, body, given),), connection=given.connection)

    def _given(self, options: SubmitOptions) -> Given:
        limit_seconds = self._definitions.execution_limit_seconds
        base = job_fields({}, execution_limit_seconds=limit_seconds)
        given = submit_fields(options, base=base, where="app.submit()")
        require_timeout(
            given.fields.get("timeouts", DEFAULT_TIMEOUTS).execution,
            limit_seconds=limit_seconds,
            what="the job",
            remedy="shorten it, or raise the app's: Holdfast(execution_limit=…)",
        )
        return given

    def _handle(self, name: str, submitted: Submitted) -> JobHandle[Any]:
        known = self._definitions.job_types.get(name)
        return JobHandle(
            self._runtime, submitted, _decode_any if known is None else known.handler.signature.decode_result
        )

    # work

    def worker(
        self,
        *,
        concurrency: int = limits.DEFAULT_CONCURRENCY,
        queues: Queues | None = None,
        limits: Mapping[str, int] | None = None,
        grace: Seconds = limits.DEFAULT_GRACE_SECONDS,
        name: str | None = None,
        tick: Tick | bool = True,
    ) -> Worker:
        """A worker for this app's job types; the app must be open.

        ::

            async with app, app.worker(concurrency=10, queues=["high", "default"], limits={"high": 4}):
                ...

            async with app:
                await app.worker().run()  # until worker.stop()

        ``queues`` in order, or with weights (``{"high": 3, "default": 1}``); without them, the queues of all job types
        and "default", evenly. ``limits`` bounds how many jobs of a queue run at a time, ``grace`` how long running jobs
        may take to finish when the worker stops. ``tick=False`` leaves the passing of time to other workers.
        """
        options = WorkerOptions(
            concurrency=concurrency,
            queues=self._queues() if queues is None else queues,
            limits=limits or {},
            grace_seconds=seconds_of(grace),
            name=name,
            tick=(self._tick if tick else None) if isinstance(tick, bool) else tick,
        )
        return Worker(
            self.store,
            delivery=create_delivery(self.store),
            registry=self.registry,
            options=options,
            create_pulse_store=None if self._runtime.is_shared else self._runtime.new_store,
            logs=self.log_store,
            middleware=self._runtime.middleware,
            crons=self.crons,
        )

    @property
    def log_store(self) -> LogStore | None:
        """Where the execution logs are; None where they are off."""
        if self._log_store is None and self._log_url is not None:
            self._log_store = create_log_store(self._log_url)
        return self._log_store

    async def logs(self, job: JobId) -> list[AttemptLog]:
        """What the job's handler logged and printed, oldest attempt first, as JSON Lines."""
        found = await self.get(job)
        logs = self.log_store
        return [] if logs is None else await logs.read(found.id, created_at=found.created_at)

    def _queues(self) -> Queues:
        names = sorted({DEFAULT_QUEUE, *(job_type.queue for job_type in self._definitions.job_types.values())})
        # Nobody said which comes first.
        return names if len(names) == 1 else dict.fromkeys(names, 1)

    def __repr__(self) -> str:
        return f"<Holdfast {without_password(self.url)} with {len(self.registry)} job types>"


def _handles_of(calls: Sequence[Call[R]], answers: Sequence[Submitted]) -> list[JobHandle[R]]:
    return [call.handle(answer) for call, answer in zip(calls, answers, strict=True)]


def _payload_of(given: Mapping[str, Any] | Payload | None) -> Payload:
    if given is None:
        return EMPTY
    if isinstance(given, Payload):
        return given
    if not isinstance(given, Mapping):
        raise UsageError(f"a payload is a mapping of parameter names to values, not {type(given).__name__}")
    return Payload.of(dict(given))


def _require_fit(job_type: JobType[Any, Any], payload: Payload) -> None:
    try:
        job_type.handler.signature.decode(payload)
    except PermanentError as error:
        raise InvalidInput([Fault(field="payload", problem=str(error))]) from error


def _decode_any(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)
