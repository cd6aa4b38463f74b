"""The job table: the one authority on how a job stands.

Everything here happens in one step of the loop: no method waits for anything, so each is atomic.

JOBTABLE-1. A status moves only along ``MOVES``, and only from the one that the caller expects. What is no such move is
    refused and logged; a status that is another one by now is a soft outcome. So the first terminal status stays.
JOBTABLE-2. While a key is remembered, the same key with the same spec is the same job, and with another spec a
    conflict. The newest 10,000 keys are remembered, in the order in which they first came.
JOBTABLE-3. A job is deleted only with the status that the caller expects, and only if no other call was given it: a
    duplicate submit was told that it is accepted. Its key goes with it.
JOBTABLE-4. Pages are in the contract's order, whatever the statuses asked for, and no call sorts the table.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from holdfast.designs.services.by_time import ByTime, page_of
from holdfast.designs.services.clock import WallClock, now_ms
from holdfast.rpc import limits
from holdfast.rpc.checks import (
    check_client_request_id,
    check_job_id,
    check_page,
    check_reason,
    check_sort,
    check_spec,
    check_status,
    check_statuses,
)
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import invalid, key_conflict, not_found

MOVES: Final[dict[public.JobStatus.ValueType, frozenset[public.JobStatus.ValueType]]] = {
    public.QUEUED: frozenset({public.RUNNING, public.CANCELED}),
    public.RUNNING: frozenset({public.DONE, public.FAILED, public.CANCELED}),
}
TERMINAL: Final = frozenset({public.DONE, public.FAILED, public.CANCELED})

Canonical = tuple[str, int, int, tuple[tuple[str, str], ...]]


@dataclass(slots=True, kw_only=True)
class Job:
    job_id: str
    spec: public.JobSpec
    created_at_ms: int
    client_request_id: str
    status: public.JobStatus.ValueType = public.QUEUED
    started_at_ms: int = 0
    finished_at_ms: int = 0
    is_cancel_requested: bool = False
    is_shared: bool = False
    """More than one call has been given it."""
    failure_reason: str = ""
    cancel_reason: str = ""

    def summary(self) -> public.JobSummary:
        return public.JobSummary(
            job_id=self.job_id,
            status=self.status,
            job_type=self.spec.job_type,
            created_at_ms=self.created_at_ms,
            started_at_ms=self.started_at_ms,
            finished_at_ms=self.finished_at_ms,
            cancel_requested=self.is_cancel_requested,
        )


class JobTable:
    """Fulfils ``protocols.Jobs`` in memory. ``make_id`` gives new UUIDv4s: a node of Design B makes its own kind."""

    def __init__(
        self,
        *,
        log: logging.Logger,
        make_id: Callable[[], str] = lambda: str(uuid4()),
        clock: WallClock = now_ms,
        max_keys: int = limits.MAX_DEDUP_KEYS,
    ) -> None:
        self._log = log
        self._make_id = make_id
        self._clock = clock
        self._max_keys = max_keys
        self._jobs: dict[str, Job] = {}
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._by_status: dict[int, ByTime] = {status: ByTime() for status in (*MOVES, *TERMINAL)}

    async def create_job(self, request: internal.CreateJobRequest) -> tuple[internal.CreateJobResponse, bool]:
        if not request.HasField("spec"):
            raise invalid("spec is missing; give one with a job_type")
        spec, key = check_spec(request.spec), check_client_request_id(request.client_request_id)
        if key and (earlier := self._earlier(key)) is not None:
            if canonical(earlier.spec) != canonical(spec):
                raise key_conflict(key, job_id=earlier.job_id)
            earlier.is_shared = True
            return internal.CreateJobResponse(job_id=earlier.job_id, status=earlier.status), False
        job = self._add(spec, key)
        return internal.CreateJobResponse(job_id=job.job_id, status=job.status), True

    async def delete_job_if_status(
        self, request: internal.DeleteJobIfStatusRequest
    ) -> internal.DeleteJobIfStatusResponse:
        job = self._get(request.job_id)
        if job.status != check_status("expected_status", request.expected_status) or job.is_shared:
            return internal.DeleteJobIfStatusResponse(deleted=False, current_status=job.status)
        del self._jobs[job.job_id]
        self._by_status[job.status].remove((job.created_at_ms, job.job_id))
        if self._keys.get(job.client_request_id) == job.job_id:
            del self._keys[job.client_request_id]
        return internal.DeleteJobIfStatusResponse(deleted=True, current_status=job.status)

    async def get_job_record(self, request: internal.GetJobRecordRequest) -> internal.GetJobRecordResponse:
        """While the job is open, its failure_reason is why it is to be canceled: it has no other yet."""
        job = self._get(request.job_id)
        reason = job.failure_reason if job.status in TERMINAL else job.cancel_reason
        return internal.GetJobRecordResponse(summary=job.summary(), failure_reason=reason, spec=job.spec)

    async def list_job_records(self, request: internal.ListJobRecordsRequest) -> internal.ListJobRecordsResponse:
        statuses = check_statuses("status_filter", request.status_filter)
        offset, size = check_page(request.page)
        page = page_of(
            [index for status, index in self._by_status.items() if not statuses or status in statuses],
            offset=offset,
            size=size,
            is_descending=check_sort(request.sort) == public.CREATED_AT_DESC,
        )
        return internal.ListJobRecordsResponse(
            jobs=[self._jobs[job_id].summary() for job_id in page.job_ids],
            page=public.PageResponse(next_page_token="" if page.next_offset is None else str(page.next_offset)),
        )

    async def transition_job_status(
        self, request: internal.TransitionJobStatusRequest
    ) -> internal.TransitionJobStatusResponse:
        check_status("expected_from_status", request.expected_from_status)
        check_status("to_status", request.to_status)
        check_reason(request.reason)
        job = self._get(request.job_id)
        if request.to_status not in MOVES.get(request.expected_from_status, ()):
            raise self._invalid_move(job, request)
        if job.status != request.expected_from_status:
            self._say_late(job, request)
            return internal.TransitionJobStatusResponse(applied=False, current_status=job.status)
        self._move(job, request.to_status)
        if request.to_status == public.FAILED:
            job.failure_reason = request.reason
        if request.expected_from_status == public.QUEUED and request.to_status == public.CANCELED:
            job.is_cancel_requested = True
        return internal.TransitionJobStatusResponse(applied=True, current_status=job.status)

    async def set_cancel_requested(
        self, request: internal.SetCancelRequestedRequest
    ) -> internal.SetCancelRequestedResponse:
        check_reason(request.reason)
        job = self._get(request.job_id)
        is_open = job.status not in TERMINAL
        if is_open:
            job.is_cancel_requested = request.cancel_requested
            # The first reason that was given stays, as the cancel does.
            job.cancel_reason = (job.cancel_reason or request.reason) if request.cancel_requested else ""
        return internal.SetCancelRequestedResponse(applied=is_open, current_status=job.status)

    def _get(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise not_found(check_job_id(job_id))
        return job

    def _earlier(self, key: str) -> Job | None:
        job_id = self._keys.get(key)
        return None if job_id is None else self._jobs[job_id]

    def _add(self, spec: public.JobSpec, key: str) -> Job:
        job = Job(job_id=self._make_id(), spec=spec, created_at_ms=self._clock(), client_request_id=key)
        self._jobs[job.job_id] = job
        self._by_status[job.status].add((job.created_at_ms, job.job_id))
        if key:
            self._keys[key] = job.job_id
            if len(self._keys) > self._max_keys:
                self._keys.popitem(last=False)
        return job

    def _move(self, job: Job, status: public.JobStatus.ValueType) -> None:
        entry = (job.created_at_ms, job.job_id)
        self._by_status[job.status].remove(entry)
        self._by_status[status].add(entry)
        job.status = status
        # The clock of a machine may be set back; a job does not end before it began.
        now = max(self._clock(), job.created_at_ms, job.started_at_ms)
        if status == public.RUNNING:
            job.started_at_ms = now
        else:
            job.finished_at_ms = now

    def _invalid_move(self, job: Job, request: internal.TransitionJobStatusRequest) -> Exception:
        move = f"{_name(request.expected_from_status)} → {_name(request.to_status)}"
        extra = {"event": "invalid_transition", **_told(job, request)}
        self._log.warning("%s is not a move of a job", move, extra=extra)
        allowed = ", ".join(f"{_name(old)} → {_name(new)}" for old, moves in MOVES.items() for new in sorted(moves))
        return invalid(f"{move} is not a move of a job; the moves are {allowed}", job_id=job.job_id)

    def _say_late(self, job: Job, request: internal.TransitionJobStatusRequest) -> None:
        words = "%s comes too late: the job is %s"
        extra = {"event": "transition_not_applied", **_told(job, request)}
        self._log.info(words, _name(request.to_status), _name(job.status), extra=extra)


def canonical(spec: public.JobSpec) -> Canonical:
    """Equal for equal payloads, whatever the order of their labels."""
    return spec.job_type, spec.work_duration_ms, spec.payload_size_bytes, tuple(sorted(spec.labels.items()))


def _name(status: public.JobStatus.ValueType) -> str:
    return public.JobStatus.Name(status)


def _told(job: Job, request: internal.TransitionJobStatusRequest) -> dict[str, str]:
    return {
        "method": "TransitionJobStatus",
        "job_id": job.job_id,
        "expected_status": _name(request.expected_from_status),
        "current_status": _name(job.status),
        "actor": request.actor,
    }
