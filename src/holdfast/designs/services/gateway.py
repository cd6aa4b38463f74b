"""The gateway: the public API over the job table, the queue and the result table. It keeps nothing itself.

GATEWAY-1. A job is accepted when it is in the queue. Where that fails, only the job that this very call has made is
    taken back; a duplicate that is still QUEUED is enqueued once more and never deleted.
GATEWAY-2. A queued cancel takes the job out of the queue, then stores its envelope, then moves its status. Where it
    cannot be finished, the job is enqueued again and the answer is UNAVAILABLE: canceled or queued, and never in
    between.
GATEWAY-3. A queued cancel that finds the job gone from the queue asks for a running cancel instead, and says how the
    job stands. If that is still QUEUED the job is enqueued again, so that whoever takes it sees the request; of a job
    that is older than 5 s this is an anomaly.
GATEWAY-4. A terminal status without its envelope is UNAVAILABLE, and an anomaly in the log.
GATEWAY-5. A read behind which a service hangs is UNAVAILABLE before its caller's deadline.
"""

import logging
from contextlib import suppress
from typing import Final

import grpc

from holdfast.designs.services import envelopes
from holdfast.designs.services.clock import WallClock, now_ms
from holdfast.designs.services.jobs import TERMINAL
from holdfast.designs.services.protocols import Jobs, Queue, Results
from holdfast.rpc.checks import check_job_id, check_reason
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal, invalid, unavailable
from holdfast.rpc.serving import anomaly

ACTOR: Final = "gateway"
SUBMIT_MS: Final = 5000
"""A job of this age is not on its way into the queue any more."""


class Gateway:
    """Fulfils ``protocols.PublicApi``."""

    def __init__(
        self, *, jobs: Jobs, queue: Queue, results: Results, log: logging.Logger, clock: WallClock = now_ms
    ) -> None:
        self._jobs = jobs
        self._queue = queue
        self._results = results
        self._log = log
        self._clock = clock

    async def submit_job(self, request: public.SubmitJobRequest) -> public.SubmitJobResponse:
        if not request.HasField("spec"):
            raise invalid("spec is missing; give one with a job_type")
        # The rest of the spec is the job table's to check, once.
        created, is_new = await self._jobs.create_job(
            internal.CreateJobRequest(spec=request.spec, client_request_id=request.client_request_id)
        )
        now = self._clock()
        if created.status == public.QUEUED:
            try:
                await self._queue.enqueue_job(internal.EnqueueJobRequest(job_id=created.job_id, enqueued_at_ms=now))
            except Refusal as refusal:
                await self._take_back(created.job_id, refusal, is_new=is_new)
        return public.SubmitJobResponse(job_id=created.job_id, initial_status=public.QUEUED, accepted_at_ms=now)

    async def get_job_status(self, request: public.GetJobStatusRequest) -> public.GetJobStatusResponse:
        record = await self._record(request.job_id)
        summary = record.summary
        return public.GetJobStatusResponse(
            job_id=summary.job_id,
            status=summary.status,
            cancel_requested=summary.cancel_requested,
            created_at_ms=summary.created_at_ms,
            started_at_ms=summary.started_at_ms,
            finished_at_ms=summary.finished_at_ms,
            failure_reason=record.failure_reason if summary.status == public.FAILED else "",
        )

    async def get_job_result(self, request: public.GetJobResultRequest) -> public.GetJobResultResponse:
        status = (await self._record(request.job_id)).summary.status
        if status not in TERMINAL:
            return public.GetJobResultResponse(job_id=request.job_id, result_ready=False)
        result = await self._results.get_result(internal.GetResultRequest(job_id=request.job_id))
        if not result.found or result.terminal_status != status:
            raise self._mismatch(request.job_id, status, result)
        return public.GetJobResultResponse(
            job_id=request.job_id,
            result_ready=True,
            terminal_status=status,
            output_bytes=result.output_bytes,
            output_summary=result.output_summary,
            runtime_ms=result.runtime_ms,
            checksum=result.checksum,
        )

    async def cancel_job(self, request: public.CancelJobRequest) -> public.CancelJobResponse:
        check_reason(request.reason)
        summary = (await self._record(request.job_id)).summary
        status = summary.status
        if status in TERMINAL:
            return _cancel_answer(request.job_id, status, already_terminal=True)
        if status == public.QUEUED and await self._remove(request.job_id):
            status = await self._cancel_removed(request)
            if status in TERMINAL:
                return _cancel_answer(request.job_id, status)
        return await self._request_cancel(request, created_at_ms=summary.created_at_ms)

    async def list_jobs(self, request: public.ListJobsRequest) -> public.ListJobsResponse:
        answer = await self._jobs.list_job_records(
            internal.ListJobRecordsRequest(status_filter=request.status_filter, page=request.page, sort=request.sort)
        )
        return public.ListJobsResponse(jobs=answer.jobs, page=answer.page)

    # Submit

    async def _take_back(self, job_id: str, why: Refusal, *, is_new: bool) -> None:
        """Returns only if the job turns out to be accepted after all."""
        no = unavailable(f"the job could not be enqueued, try again: {why.message}", job_id=job_id)
        if not is_new:
            raise no
        try:
            answer = await self._jobs.delete_job_if_status(
                internal.DeleteJobIfStatusRequest(job_id=job_id, expected_status=public.QUEUED)
            )
        except Refusal as refusal:
            anomaly(
                self._log, f"QUEUED, not enqueued and not deleted: {refusal.message}", job_id=job_id, method="SubmitJob"
            )
            raise no from refusal
        if not answer.deleted and answer.current_status != public.QUEUED:
            return  # Somebody has dequeued it: the queue had taken it, and only its answer was lost.
        if not answer.deleted:
            words = "QUEUED, not enqueued by the call that made it, and kept for a duplicate that was given it"
            anomaly(self._log, words, job_id=job_id, method="SubmitJob")
        raise no

    # Cancel

    async def _remove(self, job_id: str) -> bool:
        try:
            answer = await self._queue.remove_job_if_present(internal.RemoveJobIfPresentRequest(job_id=job_id))
        except Refusal as refusal:
            # It may be removed, and only the answer lost. A queue that is away for this too gives it back itself
            # (QUEUE-4).
            with suppress(Refusal):
                await self._enqueue(job_id)
            raise unavailable(f"not canceled, try again: {refusal.message}", job_id=job_id) from refusal
        return answer.removed

    async def _cancel_removed(self, request: public.CancelJobRequest) -> public.JobStatus.ValueType:
        """End a job that is in no queue now."""
        job_id = request.job_id
        try:
            stored = await self._results.store_result(envelopes.canceled(job_id, request.reason))
            if stored.current_terminal_status != public.CANCELED:
                # It has been run: whoever ran it moves its status.
                return (await self._record(job_id)).summary.status
            answer = await self._jobs.transition_job_status(
                internal.TransitionJobStatusRequest(
                    job_id=job_id,
                    expected_from_status=public.QUEUED,
                    to_status=public.CANCELED,
                    actor=ACTOR,
                    reason=request.reason,
                )
            )
        except Refusal as refusal:
            await self._enqueue_again(job_id)
            raise unavailable(f"not canceled, try again: {refusal.message}", job_id=job_id) from refusal
        return answer.current_status

    async def _request_cancel(
        self, request: public.CancelJobRequest, *, created_at_ms: int
    ) -> public.CancelJobResponse:
        answer = await self._jobs.set_cancel_requested(
            internal.SetCancelRequestedRequest(job_id=request.job_id, cancel_requested=True, reason=request.reason)
        )
        if answer.current_status == public.QUEUED:
            words = "QUEUED, and not in the queue: enqueued again with its cancel requested"
            if self._clock() - created_at_ms > SUBMIT_MS:
                anomaly(self._log, words, job_id=request.job_id, method="CancelJob")
            else:
                extra = {"event": "queued_cancel_race", "method": "CancelJob", "job_id": request.job_id}
                self._log.info(words, extra=extra)
            await self._enqueue_again(request.job_id)
        return _cancel_answer(request.job_id, answer.current_status)

    async def _enqueue_again(self, job_id: str) -> None:
        try:
            await self._enqueue(job_id)
        except Refusal as refusal:
            words = f"QUEUED, and in no queue: enqueueing it again failed: {refusal.message}"
            anomaly(self._log, words, job_id=job_id, method="CancelJob")

    async def _enqueue(self, job_id: str) -> None:
        await self._queue.enqueue_job(internal.EnqueueJobRequest(job_id=job_id, enqueued_at_ms=self._clock()))

    # Reads

    async def _record(self, job_id: str) -> internal.GetJobRecordResponse:
        return await self._jobs.get_job_record(internal.GetJobRecordRequest(job_id=check_job_id(job_id)))

    def _mismatch(self, job_id: str, status: public.JobStatus.ValueType, result: internal.GetResultResponse) -> Refusal:
        name = public.JobStatus.Name(status)
        kept = public.JobStatus.Name(result.terminal_status) if result.found else "none"
        words = f"the job is {name}, and its terminal envelope is {kept}"
        anomaly(self._log, words, job_id=job_id, method="GetJobResult", current_status=name)
        return Refusal(grpc.StatusCode.UNAVAILABLE, f"{words}; try again", job_id=job_id)


def _cancel_answer(
    job_id: str, status: public.JobStatus.ValueType, *, already_terminal: bool = False
) -> public.CancelJobResponse:
    return public.CancelJobResponse(
        job_id=job_id, accepted=True, current_status=status, already_terminal=already_terminal
    )
