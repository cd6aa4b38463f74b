"""What was submitted, and asserts about it.

A submit counts when it was accepted: neither one that was refused does, nor one whose key already stood for a job.
Children that a job spawned and jobs that the calendar fired count, too.

ASSERT-1. Only the parameters that are named are compared, with what the handler would be given: decoded, defaults
    filled in.
ASSERT-2. A parameter that the function does not have is a mistake of the test, and never a reason to pass.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.app import Holdfast
from holdfast.app.job_type import Submittable
from holdfast.core.errors import UsageError
from holdfast.core.failures import PermanentError
from holdfast.core.job import Job
from holdfast.testing.recording import Accepted
from holdfast.testing.words import call_text, difference, listed, plural
from holdfast.worker.handler import Handler

JobTypeOrName = Submittable[..., Any] | str
"""What ``@app.job`` made, or a job type's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """One submit that was accepted."""

    job: Job
    """As it was then: ``queue``, ``priority``, ``due_at``, ``key``, ``tags`` and the rest."""
    parameters: Mapping[str, Any]
    """What the handler would be given."""
    connection: Any = None
    """The caller's own, where it was submitted with ``options(connection=…)``."""

    @property
    def id(self) -> UUID:
        return self.job.id

    @property
    def type(self) -> str:
        return self.job.type

    def __str__(self) -> str:
        return call_text(self.type, self.job.payload)


class Submissions:
    """The asserts. The record is the store's."""

    def __init__(self, app: Holdfast, accepted: Sequence[Accepted]) -> None:
        self._app = app
        self._accepted = accepted

    def submitted(self, job_type: JobTypeOrName | None = None, /, *args: Any, **parameters: Any) -> list[SubmittedJob]:
        """What was submitted, oldest first: everything, or of one job type, or of it with these parameters.

        ::

            (mail,) = jobs.submitted(send_mail, to="ann@example.org")
            assert mail.job.queue == "mails"
        """
        everything = [self._submitted(one) for one in self._accepted]
        if job_type is None:
            if args or parameters:
                raise UsageError("parameters belong to a job type; write: jobs.submitted(send_mail, to=…)")
            return everything
        wanted = self._wanted(job_type, args, parameters)
        return [one for one in everything if wanted.is_met_by(one)]

    def assert_submitted(
        self, job_type: JobTypeOrName, /, *args: Any, times: int | None = None, **parameters: Any
    ) -> None:
        """Submitted with these parameters at least once, or exactly so many ``times``; others may be anything."""
        wanted = self._wanted(job_type, args, parameters)
        handler = self._app.registry.get(wanted.name)
        if handler is not None and "times" in _names(handler):
            raise UsageError(
                f"{wanted.name!r} has a parameter called times, which says here how often it was submitted; write: "
                f"assert len(jobs.submitted({wanted.name}, …)) == 1"
            )
        self._check(wanted, times)

    def assert_submitted_once(self, job_type: JobTypeOrName, /, *args: Any, **parameters: Any) -> None:
        """Submitted with these parameters exactly once; other parameters may be anything."""
        self._check(self._wanted(job_type, args, parameters), 1)

    def assert_not_submitted(self, job_type: JobTypeOrName | None = None, /, *args: Any, **parameters: Any) -> None:
        """Never submitted with these parameters; without a job type, nothing was submitted at all."""
        found = self.submitted(job_type, *args, **parameters)
        if found:
            what = "a job" if job_type is None else str(self._wanted(job_type, args, parameters))
            head = f"{what} was submitted {plural(len(found), 'time')}, and should not have been:"
            raise AssertionError("\n".join([head, *listed(map(str, found))]))

    def _check(self, wanted: "Wanted", times: int | None) -> None:
        everything = self.submitted()
        count = sum(wanted.is_met_by(one) for one in everything)
        if count != times and not (times is None and count):
            raise AssertionError(_not_so(wanted, times, everything))

    def _submitted(self, one: Accepted) -> SubmittedJob:
        return SubmittedJob(job=one.job, parameters=self._parameters(one.job), connection=one.connection)

    def _parameters(self, job: Job) -> Mapping[str, Any]:
        value: Any
        try:
            value = self._app.registry[job.type].signature.decode(job.payload)
        except (KeyError, PermanentError):
            # Of another program's function, or of one that refuses it: what was given, as it is.
            value = job.payload.value()
        return value if isinstance(value, dict) else {"payload": value}

    def _wanted(self, job_type: Any, args: tuple[Any, ...], parameters: Mapping[str, Any]) -> "Wanted":
        name = job_type if isinstance(job_type, str) else self._own(job_type).name
        handler = self._app.registry.get(name)
        if handler is not None:
            return Wanted(name=name, parameters=_bound(handler, args, parameters))
        if args:
            raise UsageError(f"{name!r} is not a function of this app; give its parameters by name")
        return Wanted(name=name, parameters=parameters)

    def _own(self, job_type: Any) -> Handler:
        if not isinstance(job_type, Submittable):
            raise UsageError(f"{job_type!r} is not a job type; give what @app.job made, or its name")
        if self._app.registry.get(job_type.name) is not job_type.handler:
            raise UsageError(f"{job_type.name!r} belongs to another app than the one under test")
        return job_type.handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an assert is about."""

    name: str
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        return call_text(self.name, self.parameters) if self.parameters else self.name

    def is_met_by(self, one: SubmittedJob) -> bool:
        return one.type == self.name and not self._unmet(one)

    def differences(self, one: SubmittedJob) -> list[str]:
        return [
            line
            for name in self._unmet(one)
            for line in difference(name, self.parameters[name], one.parameters.get(name, _MISSING))
        ]

    def _unmet(self, one: SubmittedJob) -> list[str]:
        found = one.parameters
        return [name for name, value in self.parameters.items() if not _is_same(value, found.get(name, _MISSING))]


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


def _not_so(wanted: Wanted, times: int | None, everything: Sequence[SubmittedJob]) -> str:
    met = [one for one in everything if wanted.is_met_by(one)]
    near = [one for one in everything if one.type == wanted.name and not wanted.is_met_by(one)]
    others = [one for one in everything if one.type != wanted.name]
    expected = "" if times is None else f", and not {plural(times, 'time')}"
    count = f"was submitted {plural(len(met), 'time')}{expected}" if met else "was not submitted"
    lines = [f"{wanted} {count}", *listed(map(str, met))]
    if near:
        lines.append(f"with other parameters, {wanted.name} was submitted {plural(len(near), 'time')}:")
        lines += listed("\n".join([str(one), *(f"    {line}" for line in wanted.differences(one))]) for one in near)
    if others:
        lines.append("other jobs that were submitted:")
        lines += listed(map(str, others))
    if not everything:
        lines.append("nothing was submitted at all")
    return "\n".join(lines)


def _names(handler: Handler) -> list[str]:
    names = list(inspect.signature(handler.function).parameters)
    return names[1:] if handler.signature.wants_context else names


def _bound(handler: Handler, args: tuple[Any, ...], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """By name, as few as are given (ASSERT-1); UsageError for what the function does not have (ASSERT-2)."""
    names = _names(handler)
    given = dict(zip(names, args, strict=False))
    unknown = [name for name in parameters if name not in names]
    twice = [name for name in parameters if name in given]
    has = f"it has: {', '.join(names) or 'none'}"
    if unknown:
        raise UsageError(f"{handler.name!r} has no parameter {unknown[0]!r}; {has}")
    if len(args) > len(names) or twice:
        raise UsageError(f"{handler.name!r} has fewer parameters than are given here; {has}")
    return {**given, **parameters}


def _is_same(expected: Any, found: Any) -> bool:
    """As Python compares them, or as both are written: a tuple for a list, a dict for a dataclass."""
    if expected == found:
        return True
    try:
        return bool(_written(expected) == _written(found))
    except (TypeError, ValueError, RecursionError):
        return False


def _written(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_model))


def _model(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"no payload carries a {type(value).__name__}")
