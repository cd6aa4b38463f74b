"""What can be said of a job type and of a single submit, and the fields of a NewJob that this comes to.

Everything is worked out where it is said (``@app.job(…)``, ``.options(…)``), so that a mistake is reported there and a
submit only copies the fields.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypedDict
from uuid import UUID

from holdfast.core import limits
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.errors import UsageError
from holdfast.core.job import DEFAULT_TIMEOUTS, FIELDS, Timeouts
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry
from holdfast.core.times import Seconds, seconds_of
from holdfast.worker.handler import Isolation


class HasId(Protocol):
    """A handle, a call that is submitted with this one, or a job as it was read."""

    @property
    def id(self) -> UUID: ...


Upstream = HasId | UUID | str
"""What a job can wait for."""


class PeriodicOptions(TypedDict, total=False):
    """``@app.cron(…)`` on a function, and what it shares with ``@app.job(…)``."""

    queue: str
    priority: Priority
    retry: Retry
    timeout: Seconds
    """How long an attempt may run. Never more than the app's ``execution_limit``."""
    visibility: Seconds
    """How long a lease lasts without a heartbeat."""
    lifetime: Seconds
    """From submit to the end, whatever happens."""
    isolation: Isolation | Literal["loop", "thread", "process"]
    """Coroutine functions run on the loop, plain ones in a thread; "process" runs either in a child process."""
    permanent: Iterable[type[BaseException]]
    """Exceptions that are not worth another attempt."""
    tags: Mapping[str, str]
    group: str
    """What its jobs belong together by: a customer, an account. To list them by."""


class JobOptions(PeriodicOptions, total=False):
    """``@app.job(…)``: what holds for every job of the type unless its submit says otherwise."""

    name: str
    """The job type; the function's name by default."""


class SubmitOptions(TypedDict, total=False):
    """``.options(…)``: what holds for one submit."""

    delay: Seconds
    run_at: datetime
    key: str
    """A repeat with the same key and the same payload gives the job that exists."""
    key_window: Seconds
    after: Iterable[Upstream] | Upstream
    """Runs when all of these have completed; ends as they do when one does not."""
    after_any: Iterable[Upstream] | Upstream
    """Runs when the first of these has ended, however it did."""
    queue: str
    priority: Priority
    retry: Retry
    timeout: Seconds
    visibility: Seconds
    lifetime: Seconds
    tags: Mapping[str, str]
    """Added to the job type's own."""
    correlation_id: str
    callback_url: str
    group: str
    connection: Any
    """Your own connection or session: the job is accepted when you commit."""


_SAME: Final = FIELDS.keys() - {"tags"}
"""What is given as it is, under the name that the NewJob has for it; tags are put together."""
_SECONDS: Final = {"delay": "delay_seconds", "key_window": "key_window_seconds"}
_TIMEOUTS: Final = {"timeout": "execution", "visibility": "visibility", "lifetime": "lifetime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Options, worked out: the fields of a NewJob that differ from its defaults, and the connection."""

    fields: Mapping[str, Any]
    connection: Any = None


def require_known(options: Mapping[str, Any], kind: type, *, where: str) -> None:
    unknown = sorted(options.keys() - kind.__annotations__.keys())
    if unknown:
        raise TypeError(
            f"{where} got an unexpected keyword argument {unknown[0]!r}; it takes {', '.join(kind.__annotations__)}"
        )


def job_fields(options: JobOptions, *, execution_limit_seconds: float) -> dict[str, Any]:
    """What a job type says of its jobs."""
    fields: dict[str, Any] = {name: value for name, value in options.items() if name in _SAME}
    base = replace(DEFAULT_TIMEOUTS, execution=execution_limit_seconds)
    _put_timeouts(fields, options, base)
    if options.get("tags"):
        fields["tags"] = dict(options["tags"])
    return fields


def submit_fields(options: SubmitOptions, *, base: Mapping[str, Any], where: str) -> Given:
    """What a submit says of its job, over what the job's type says."""
    require_known(options, SubmitOptions, where=where)
    given: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
    fields = dict(base)
    fields |= {name: value for name, value in given.items() if name in _SAME}
    fields |= {field: seconds_of(given[name]) for name, field in _SECONDS.items() if name in given}
    _put_timeouts(fields, given, base.get("timeouts", DEFAULT_TIMEOUTS))
    if given.get("tags"):
        fields["tags"] = {**base.get("tags", {}), **given["tags"]}
    dependencies = (
        *_dependencies(given.get("after"), DependencyKind.AFTER),
        *_dependencies(given.get("after_any"), DependencyKind.AFTER_ANY),
    )
    if dependencies:
        fields["dependencies"] = dependencies
    return Given(fields=fields, connection=given.get("connection"))


def require_timeout(seconds: float, *, limit_seconds: float, what: str, remedy: str) -> None:
    if seconds > limit_seconds:
        raise UsageError(f"the timeout of {what} is {seconds:g} s, the limit {limit_seconds:g} s; {remedy}")


def id_of(job: HasId | UUID | str) -> UUID:
    if isinstance(job, UUID):
        return job
    found = _parsed(job) if isinstance(job, str) else getattr(job, "id", None)
    if not isinstance(found, UUID):
        raise UsageError(f"{job!r} is not a job; give a handle, a call or a job's UUID")
    return found


def _parsed(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _put_timeouts(fields: dict[str, Any], options: Mapping[str, Any], base: Timeouts) -> None:
    given = {field: seconds_of(options[name]) for name, field in _TIMEOUTS.items() if name in options}
    timeouts = replace(base, **given) if given else base
    if timeouts != DEFAULT_TIMEOUTS:
        fields["timeouts"] = timeouts


def _dependencies(given: Iterable[Upstream] | Upstream | None, kind: DependencyKind) -> tuple[Dependency, ...]:
    if given is None:
        return ()
    several: Iterable[Upstream] = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    ids = dict.fromkeys(id_of(one) for one in several)
    return tuple(Dependency(job_id, kind) for job_id in ids)


def isolation_of(options: JobOptions, *, is_async: bool, name: str) -> Isolation:
    default = Isolation.LOOP if is_async else Isolation.THREAD
    try:
        chosen = Isolation(options.get("isolation", default))
    except ValueError:
        raise UsageError(f"isolation of {name!r} is {options.get('isolation')!r}; write 'process'") from None
    if chosen not in (default, Isolation.PROCESS):
        kind = "a coroutine function" if is_async else "a plain function"
        raise UsageError(f"{name!r} is {kind}, which runs with isolation={default.value!r} or 'process'")
    return chosen


def queue_of(fields: Mapping[str, Any]) -> str:
    queue: str = fields.get("queue", limits.DEFAULT_QUEUE)
    return queue
