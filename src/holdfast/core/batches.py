"""Many jobs of one submit as columns, which costs less than one object a job."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, overload
from uuid import UUID

from holdfast.core.commands import NewJob
from holdfast.core.job import FIELDS
from holdfast.core.payload import Payload

if TYPE_CHECKING:
    _Jobs = Sequence[NewJob]
else:
    # With an abstract base class, to ask what kind of batch a submit has would be a call of Python's, for every job.
    _Jobs = object

_shared: Final = attrgetter(*(name for name in FIELDS if name not in ("id", "payload")), "payload.is_json")


class JobColumns(_Jobs):
    """Jobs that differ in ID and payload alone, as a thousand calls of one function do: one of them, and two columns.

    A store can write them as they are; for everybody else they are a sequence of jobs, made when they are asked for.
    Made from calls they are worth 10 % of a bulk submit, with a quarter of the program's own time.
    """

    __slots__ = ("_jobs", "first", "ids", "payloads")

    def __init__(self, first: NewJob, ids: Sequence[UUID], payloads: Sequence[Payload]) -> None:
        self.first = first
        self.ids = ids
        self.payloads = payloads
        self._jobs: Sequence[NewJob] = ()

    @classmethod
    def of(cls, jobs: Sequence[NewJob]) -> "JobColumns | None":
        """None where they differ in more; that some payloads are JSON and others are not is more."""
        if isinstance(jobs, JobColumns):
            return jobs if len({payload.is_json for payload in jobs.payloads}) == 1 else None
        first, *others = jobs
        if others:
            shared = _shared(first)
            if any(_shared(job) != shared for job in others):
                return None
        return cls(first, [job.id for job in jobs], [job.payload for job in jobs])

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> NewJob: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NewJob]: ...
    def __getitem__(self, index: int | slice) -> NewJob | Sequence[NewJob]:
        return self._all()[index]

    def __iter__(self) -> Iterator[NewJob]:
        return iter(self._all())

    def _all(self) -> Sequence[NewJob]:
        if not self._jobs:
            self._jobs = [
                replace(self.first, id=job_id, payload=payload, tags=dict(self.first.tags))
                for job_id, payload in zip(self.ids, self.payloads, strict=True)
            ]
        return self._jobs


def ids_of(jobs: Sequence[NewJob]) -> Sequence[UUID]:
    return jobs.ids if isinstance(jobs, JobColumns) else [job.id for job in jobs]


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """All of them are."""
    return jobs.first.is_plain if isinstance(jobs, JobColumns) else all(job.is_plain for job in jobs)
