"""The job types of an app: a function and what was said of it become a handler, checked where it is said."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from holdfast.app.job_type import FunctionHandler, JobType, job_type_of
from holdfast.app.options import Given, JobOptions, PeriodicOptions, isolation_of, job_fields, require_timeout
from holdfast.app.runtime import Runtime
from holdfast.app.signature import FunctionSignature
from holdfast.core import limits
from holdfast.core.checks import require_valid_submit
from holdfast.core.commands import NewJob, Submit
from holdfast.core.errors import Fault, InvalidInput, UsageError
from holdfast.core.times import seconds_of
from holdfast.worker.handler import Isolation, Registry
from holdfast.worker.targets import require_importable

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

Exceptions = Iterable[type[BaseException]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """When a periodic job runs."""

    expression: str
    timezone: str
    name: str | None


class Definitions:
    def __init__(
        self, runtime: Runtime, *, permanent: Exceptions, result_limit_bytes: int, execution_limit_seconds: float
    ) -> None:
        self.registry = Registry()
        self.job_types: dict[str, JobType[Any, Any]] = {}
        self.crons: dict[str, CronEntry] = {}
        self.execution_limit_seconds = execution_limit_seconds
        self._runtime = runtime
        self._permanent = _exceptions(permanent, "Holdfast(permanent=…)")
        self._result_limit_bytes = _require_result_limit(result_limit_bytes)

    def add(self, function: Callable[..., Any], options: JobOptions) -> JobType[Any, Any]:
        """UsageError or InvalidInput with the fix where the function, or what is said of it, cannot be."""
        name = _name_of(function, options)
        fields = job_fields(options, execution_limit_seconds=self.execution_limit_seconds)
        require_valid_submit(Submit(jobs=(NewJob(id=uuid4(), type=name, **fields),)))
        handler = self._handler(function, name, options)
        require_timeout(
            handler.execution_seconds,
            limit_seconds=self.execution_limit_seconds,
            what=f"{name!r}",
            remedy="shorten it, or raise the app's: Holdfast(execution_limit=…)",
        )
        self.registry.add(handler)
        job_type = self.job_types[name] = job_type_of(self._runtime, handler, Given(fields=fields))
        return job_type

    def add_periodic(
        self, given: Callable[..., Any] | JobType[Any, Any], calendar: Calendar, options: PeriodicOptions
    ) -> JobType[Any, Any]:
        """Give a job type, or a function that becomes one, its place in the calendar."""
        if isinstance(given, JobType):
            if options:
                raise UsageError(f"{given.name!r} is a job type already; give {', '.join(options)} to its @app.job(…)")
            job_type = given
        else:
            job_type = self.add(given, cast("JobOptions", options))
        entry = _entry(job_type, calendar)
        other = self.crons.get(entry.name)
        if other is not None and (other.expression, other.timezone) != (entry.expression, entry.timezone):
            raise UsageError(f"two crons are called {entry.name!r}; give one of them another name=")
        self.crons[entry.name] = entry
        return job_type

    def _handler(self, function: Callable[..., Any], name: str, options: JobOptions) -> FunctionHandler:
        is_async = inspect.iscoroutinefunction(function)
        isolation = isolation_of(options, is_async=is_async, name=name)
        if isolation is Isolation.PROCESS:
            require_importable(function)
        retry = options.get("retry")
        return FunctionHandler(
            name=name,
            function=function,
            isolation=isolation,
            is_async=is_async,
            signature=FunctionSignature.of(function, name=name),
            execution_seconds=seconds_of(options.get("timeout", self.execution_limit_seconds)),
            permanent=(*self._permanent, *_exceptions(options.get("permanent", ()), f"permanent= of {name!r}")),
            custom_delay=None if retry is None else retry.custom,
            result_limit_bytes=self._result_limit_bytes,
        )


def _entry(job_type: JobType[Any, Any], calendar: Calendar) -> "CronEntry":
    from holdfast.engine.cron import CronEntry  # most programs have no periodic job

    required = sorted(job_type.handler.signature.required)
    if required:
        raise UsageError(
            f"nobody would give {job_type.name!r} its {', '.join(required)} when its time comes; give each a default"
        )
    return CronEntry(
        name=job_type.name if calendar.name is None else calendar.name,
        expression=calendar.expression,
        timezone=calendar.timezone,
        make_job=job_type.new_job,
    )


def _name_of(function: Any, options: JobOptions) -> str:
    if isinstance(function, JobType):
        raise UsageError(f"{function.name!r} is a job type already; decorate the function once")
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise UsageError(f"@app.job wants a function, not {function!r}; wrap it in one")
    name = options.get("name", function.__name__)
    if name == "<lambda>":
        raise UsageError("a lambda has no name; write app.job(name=…)(lambda: …)")
    return name


def _exceptions(given: Any, where: str) -> tuple[type[BaseException], ...]:
    kinds = tuple(given) if isinstance(given, Iterable) else (given,)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise UsageError(f"{where} holds {kind!r}, which is not an exception class")
    return kinds


def _require_result_limit(limit_bytes: int) -> int:
    if not 1 <= limit_bytes <= limits.MAX_RESULT_BYTES:
        raise InvalidInput(
            [Fault(field="result_limit", problem=f"is {limit_bytes}", limit=f"1 … {limits.MAX_RESULT_BYTES} bytes")]
        )
    return limit_bytes
