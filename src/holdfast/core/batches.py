"""Many jobs of one submit in a form that costs less than one object a job; for everybody else they are sequences."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload
from uuid import UUID

from holdfast.core.commands import NewJob
from holdfast.core.payload import Payload

if TYPE_CHECKING:
    _Jobs = Sequence[NewJob]
else:
    # With an abstract base class, to ask what kind of batch a submit has would be a call of Python's, for every job.
    _Jobs = object


class _MadeJobs(_Jobs):
    """Jobs that are kept in another form, and made for whoever wants them one by one."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: Sequence[NewJob] = ()

    @abstractmethod
    def _make(self) -> Sequence[NewJob]: ...

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
            self._jobs = self._make()
        return self._jobs


class AlikeJobs(_MadeJobs):
    """Jobs that differ in ID and payload alone, as a thousand calls of one function do.

    Kept as one of them and two columns, which a store can write as they are.
    """

    __slots__ = ("first", "ids", "payloads")

    def __init__(self, first: NewJob, ids: Sequence[UUID], payloads: Sequence[Payload]) -> None:
        super().__init__()
        self.first = first
        self.ids = ids
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.ids)

    def _make(self) -> Sequence[NewJob]:
        return [
            replace(self.first, id=job_id, payload=payload, tags=dict(self.first.tags))
            for job_id, payload in zip(self.ids, self.payloads, strict=True)
        ]


class JobsInParts(_MadeJobs):
    """Jobs of which the first are made, and the others in parts as they are asked for.

    A store may write one part while the next is made; for anybody else this is a sequence, and all of them are made at
    once. What was made is kept, for a repeat. An error in the making comes again with every further try: a part of what
    cannot be made as a whole is never taken for it.
    """

    __slots__ = ("_failure", "_parts", "_rest")

    def __init__(self, first: Sequence[NewJob], rest: Iterator[Sequence[NewJob]]) -> None:
        super().__init__()
        self._parts = [first]
        self._rest = rest
        self._failure: BaseException | None = None

    def parts(self) -> Iterator[Sequence[NewJob]]:
        index = 0
        while index < len(self._parts) or self._make_another():
            yield self._parts[index]
            index += 1

    def _make_another(self) -> bool:
        if self._failure is not None:
            raise self._failure
        try:
            part = next(self._rest, None)
        except BaseException as error:
            self._failure = error
            raise
        if part is not None:
            self._parts.append(part)
        return part is not None

    @property
    def ids(self) -> Sequence[UUID]:
        return [job_id for part in self.parts() for job_id in ids_of(part)]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts())

    def _make(self) -> Sequence[NewJob]:
        return [job for part in self.parts() for job in part]


def ids_of(jobs: Sequence[NewJob]) -> Sequence[UUID]:
    return jobs.ids if isinstance(jobs, (AlikeJobs, JobsInParts)) else [job.id for job in jobs]


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """All of them are."""
    return jobs.first.is_plain if isinstance(jobs, AlikeJobs) else all(job.is_plain for job in jobs)


def queues_of(jobs: Sequence[NewJob]) -> set[str]:
    return {jobs.first.queue} if isinstance(jobs, AlikeJobs) else {job.queue for job in jobs}
