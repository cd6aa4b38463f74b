"""The coordinator: hands queued jobs to workers, and brings what they report to its end.

A FetchWork looks for a job in three places: the IDs that were dequeued and could not be started, the RUNNING jobs that
nobody runs, the queue. The search goes on when the call that started it is cancelled: an ID that has been popped is in
nobody else's hands. What it finds for a caller that has gone is kept for the next one.

COORDINATOR-1. A job is assigned only after its move QUEUED → RUNNING was applied. A move that comes too late is an
    expected race.
COORDINATOR-2. A dequeued ID whose move could not be asked for is kept and tried first. The queue is told of an ID when
    its job has ended; what we take to the grave before, it gives to our successor. What it gives back while we look
    after it is passed over. A dequeued job that is RUNNING although no worker has it was on its way to one, or lost
    with one, and is handed out as well.
COORDINATOR-3. A RUNNING job that nobody runs stays RUNNING and is handed to a later FetchWork, three times at most;
    then it is FAILED with WORKER_LOST.
COORDINATOR-4. The envelope is stored before the status is moved, and the status becomes that of the stored envelope,
    whoever brought it. So the two agree, and the first report wins.
COORDINATOR-5. A cancel that was requested before a job's outcome is reported wins, and so it does before the job is
    handed out.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Final

import grpc

from holdfast.designs.services import envelopes
from holdfast.designs.services.jobs import TERMINAL
from holdfast.designs.services.protocols import Jobs, Queue, Results
from holdfast.designs.services.roster import Roster
from holdfast.rpc import limits
from holdfast.rpc.checks import check_job_id, check_text, check_worker_id
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal, conflict, invalid
from holdfast.rpc.serving import anomaly
from holdfast.rpc.work import WORKER_LOST

ACTOR: Final = "coordinator"
WATCH_SECONDS: Final = limits.HEARTBEAT_INTERVAL_MS / 2000
SEARCH_SECONDS: Final = (limits.FETCH_WAIT_MS - limits.DEQUEUE_WAIT_MS) / 1000
"""After this a search does not ask the queue once more: FetchWork would wait for longer than it may."""
MAX_SETTLED: Final = 100
"""In one call: they travel in a header."""
HINT_MS: Final = min(max(limits.FETCH_HINT_MS, limits.FETCH_HINT_MIN_MS), limits.FETCH_HINT_MAX_MS)
MAX_HOLDING: Final = 1000
REQUESTED: Final = "requested while it was running"


@dataclass(slots=True)
class Asker:
    """A FetchWork that waits."""

    worker_id: str
    until: float
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A RUNNING job that is to be run."""

    job_id: str
    spec: public.JobSpec


class WorkCoordinator:
    """Fulfils ``protocols.Coordinator`` over the other three."""

    def __init__(
        self, *, jobs: Jobs, queue: Queue, results: Results, log: logging.Logger, roster: Roster | None = None
    ) -> None:
        self._jobs = jobs
        self._queue = queue
        self._results = results
        self._log = log
        self._roster = Roster() if roster is None else roster
        self._held: OrderedDict[str, None] = OrderedDict()
        """Dequeued, and not started: tried first."""
        self._in_hand: set[str] = set()
        """What searches have now, until it is handed out."""
        self._settled: list[str] = []
        """Ended, and the queue not told yet."""
        self._searches: set[asyncio.Task[Found | None]] = set()
        self._watch: asyncio.Task[None] | None = None

    # What workers ask for

    async def worker_heartbeat(
        self, request: internal.WorkerHeartbeatRequest, *, holding: Sequence[str] | None = None
    ) -> internal.WorkerHeartbeatResponse:
        worker_id = check_worker_id(request.worker_id)
        if holding is not None:
            _check_holding(holding)
        self._roster.heartbeat(worker_id, holding=holding)
        return internal.WorkerHeartbeatResponse(accepted=True, next_heartbeat_in_ms=limits.HEARTBEAT_INTERVAL_MS)

    async def fetch_work(
        self, request: internal.FetchWorkRequest, *, seconds_left: float | None = None
    ) -> internal.FetchWorkResponse:
        worker_id = check_worker_id(request.worker_id)
        # One that we do not know sends its heartbeat first: nobody would notice the loss of its job.
        is_short = seconds_left is not None and seconds_left < limits.DEQUEUE_MINIMUM_LEFT_MS / 1000
        if is_short or not self._roster.is_alive(worker_id):
            return internal.FetchWorkResponse(assigned=False, retry_after_ms=HINT_MS)
        asker = Asker(worker_id, asyncio.get_running_loop().time() + SEARCH_SECONDS)
        search = asyncio.ensure_future(self._search(asker))
        self._searches.add(search)
        search.add_done_callback(self._searches.discard)
        try:
            found = await asyncio.shield(search)
        except asyncio.CancelledError:
            asker.is_gone = True
            search.add_done_callback(self._keep)
            raise
        if found is None:
            return internal.FetchWorkResponse(assigned=False, retry_after_ms=HINT_MS)
        deliveries = self._roster.hand_out(found.job_id, worker_id)
        if deliveries > 1:
            extra = {"event": "job_lost", "method": "FetchWork", "job_id": found.job_id, "worker_id": worker_id}
            self._log.warning("no worker has this job any more: handed out for the %d. time", deliveries, extra=extra)
        self._in_hand.discard(found.job_id)
        return internal.FetchWorkResponse(assigned=True, job_id=found.job_id, spec=found.spec)

    async def report_work_outcome(
        self, request: internal.ReportWorkOutcomeRequest
    ) -> internal.ReportWorkOutcomeResponse:
        _check_report(request)
        job_id = request.job_id
        record = await self._jobs.get_job_record(internal.GetJobRecordRequest(job_id=job_id))
        if record.summary.status == public.QUEUED:
            raise conflict("the job is QUEUED: no worker was given it", job_id=job_id)
        envelope, reason = envelopes.reported(request)
        if record.summary.status in TERMINAL:
            self._forget(job_id)
            return self._late(request, record.summary.status, envelope.terminal_status)
        if record.summary.cancel_requested:
            envelope, reason = envelopes.canceled(job_id, _why(record), runtime_ms=request.runtime_ms), ""
        status = await self._end(envelope, reason)
        return internal.ReportWorkOutcomeResponse(accepted=status == envelope.terminal_status)

    # What is lost

    def start(self) -> None:
        self._watch = asyncio.ensure_future(self._watch_workers())

    async def stop(self) -> None:
        """Searches finish first: they may have an ID in their hands."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await asyncio.gather(*self._searches, return_exceptions=True)

    async def look_after_workers(self) -> None:
        """Once: notice who is lost, and end the jobs that were lost too often."""
        for worker_id, job_ids in self._roster.expire().items():
            words = "no heartbeat for %d ms: the worker is taken for lost, and %d jobs with it"
            extra = {"event": "worker_lost", "method": "WorkerHeartbeat", "worker_id": worker_id}
            self._log.warning(words, limits.WORKER_TIMEOUT_MS, len(job_ids), extra=extra)
        while (lost := self._roster.take_lost(is_exhausted=True)) is not None:
            summary = f"{WORKER_LOST}: handed out {lost.deliveries} times, and the worker was lost each time"
            try:
                await self._end(envelopes.failed(lost.job_id, WORKER_LOST, summary=summary), WORKER_LOST)
            except Refusal as refusal:
                if refusal.code is not grpc.StatusCode.NOT_FOUND:
                    self._roster.add_lost(lost.job_id)
                    raise
                self._forget(lost.job_id)
                anomaly(self._log, "RUNNING, and no such job", job_id=lost.job_id, method="WorkerHeartbeat")

    async def _watch_workers(self) -> None:
        while True:
            began = self._roster.now()
            await asyncio.sleep(WATCH_SECONDS)
            self._roster.forgive_pause(since=began)
            try:
                await self.look_after_workers()
            except Refusal as refusal:
                extra = {"event": "unavailable", "method": "WorkerHeartbeat"}
                self._log.warning("a lost job cannot be ended yet: %s", refusal.message, extra=extra)
            except Exception:
                self._log.exception("looking after the workers failed", extra={"event": "unexpected"})

    # Looking for a job

    async def _search(self, asker: Asker) -> Found | None:
        while not asker.is_gone:
            if self._held:
                job_id, _ = self._held.popitem(last=False)
                found = await self._take(job_id, self._begin(job_id))
            elif (lost := self._roster.take_lost()) is not None:
                found = await self._take(lost.job_id, self._brief(lost.job_id))
            elif (dequeued := await self._dequeue(asker)) is None:
                return None
            elif self._has(dequeued):
                continue  # Twice in the queue, or given back by it while its job runs: it is being looked after.
            else:
                found = await self._take(dequeued, self._begin(dequeued))
            if found is not None:
                return found
        return None

    async def _take(self, job_id: str, step: Coroutine[None, None, Found | None]) -> Found | None:
        """In hand until it is handed out, if that is what comes of it. A step that raises has put it somewhere else."""
        self._in_hand.add(job_id)
        found = None
        try:
            found = await step
        finally:
            if found is None:
                self._in_hand.discard(job_id)
        return found

    def _has(self, job_id: str) -> bool:
        return job_id in self._in_hand or job_id in self._held or self._roster.knows(job_id)

    async def _dequeue(self, asker: Asker) -> str | None:
        if asyncio.get_running_loop().time() >= asker.until:
            return None
        settled, self._settled = self._settled[:MAX_SETTLED], self._settled[MAX_SETTLED:]
        try:
            answer = await self._queue.dequeue_job(
                internal.DequeueJobRequest(worker_id=asker.worker_id), settled=settled
            )
        except Refusal:
            self._settled += settled
            raise
        if answer.found and asker.is_gone:
            self._held.setdefault(answer.job_id)
            return None
        return answer.job_id if answer.found else None

    async def _begin(self, job_id: str) -> Found | None:
        """QUEUED → RUNNING. None where somebody else has it, or has ended it."""
        move = internal.TransitionJobStatusRequest(
            job_id=job_id, expected_from_status=public.QUEUED, to_status=public.RUNNING, actor=ACTOR
        )
        try:
            answer = await self._jobs.transition_job_status(move)
        except Refusal as refusal:
            if refusal.code is grpc.StatusCode.NOT_FOUND:
                self._forget(job_id)
                anomaly(self._log, "in the queue, and no such job", job_id=job_id, method="FetchWork")
                return None
            self._held[job_id] = None
            self._held.move_to_end(job_id, last=False)
            raise
        is_nobodys = answer.current_status == public.RUNNING and not self._roster.knows(job_id)
        if not answer.applied and not is_nobodys:
            status = public.JobStatus.Name(answer.current_status)
            extra = {"event": "dispatch_race", "method": "FetchWork", "job_id": job_id, "current_status": status}
            self._log.info("dequeued, and not QUEUED any more: not assigned", extra=extra)
            if answer.current_status in TERMINAL:
                self._forget(job_id)
            return None
        return await self._brief(job_id)

    async def _brief(self, job_id: str) -> Found | None:
        """What a RUNNING job is to do. None where it has ended, or ends now because its cancel was requested."""
        try:
            record = await self._jobs.get_job_record(internal.GetJobRecordRequest(job_id=job_id))
            if record.summary.status != public.RUNNING:
                self._forget(job_id)
                return None
            if record.summary.cancel_requested:
                await self._end(envelopes.canceled(job_id, _why(record)), "")
                return None
        except Refusal as refusal:
            if refusal.code is grpc.StatusCode.NOT_FOUND:
                self._forget(job_id)
                anomaly(self._log, "RUNNING, and no such job", job_id=job_id, method="FetchWork")
                return None
            self._roster.add_lost(job_id)
            raise
        return Found(job_id, record.spec)

    def _keep(self, search: asyncio.Task[Found | None]) -> None:
        """What was found for a caller that has gone: RUNNING already, so the next one gets it as it is."""
        if search.cancelled() or search.exception() is not None:
            return
        if (found := search.result()) is not None:
            self._in_hand.discard(found.job_id)
            self._roster.add_lost(found.job_id)

    # Ending a job

    async def _end(self, envelope: internal.StoreResultRequest, reason: str) -> public.JobStatus.ValueType:
        """The status that the job has in the end."""
        job_id = envelope.job_id
        stored = await self._results.store_result(envelope)
        status = stored.current_terminal_status
        if status != envelope.terminal_status:
            reason = "stored by an earlier report" if status == public.FAILED else ""
        move = internal.TransitionJobStatusRequest(
            job_id=job_id, expected_from_status=public.RUNNING, to_status=status, actor=ACTOR, reason=reason
        )
        answer = await self._jobs.transition_job_status(move)
        self._forget(job_id)
        if answer.current_status != status:
            self._say_race(job_id, status, answer.current_status)
        return answer.current_status

    def _forget(self, job_id: str) -> None:
        """It has ended: only now is there nothing that a successor would have to know."""
        self._roster.end(job_id)
        self._settled.append(job_id)

    def _late(
        self,
        report: internal.ReportWorkOutcomeRequest,
        current: public.JobStatus.ValueType,
        wanted: public.JobStatus.ValueType,
    ) -> internal.ReportWorkOutcomeResponse:
        """The job has ended. The report of the same end is the same report once more."""
        if current != wanted:
            self._say_race(report.job_id, wanted, current)
        return internal.ReportWorkOutcomeResponse(accepted=current == wanted)

    def _say_race(self, job_id: str, wanted: public.JobStatus.ValueType, current: public.JobStatus.ValueType) -> None:
        words, name = "%s comes too late: the job is %s", public.JobStatus.Name
        extra = {"event": "terminal_race", "method": "ReportWorkOutcome", "job_id": job_id}
        self._log.info(words, name(wanted), name(current), extra={**extra, "current_status": name(current)})


def _why(record: internal.GetJobRecordResponse) -> str:
    """The reason of a requested cancel: an open job's record has it for its failure_reason."""
    return record.failure_reason or REQUESTED


def _check_holding(holding: Sequence[str]) -> None:
    if len(holding) > MAX_HOLDING:
        raise invalid(f"the worker names {len(holding)} jobs that it has; at most {MAX_HOLDING} are taken")
    for job_id in holding:
        check_job_id(job_id)


def _check_report(report: internal.ReportWorkOutcomeRequest) -> None:
    check_job_id(report.job_id)
    check_worker_id(report.worker_id)
    if report.outcome not in (internal.SUCCEEDED, internal.FAILED, internal.CANCELED):
        raise invalid("outcome is not known; give SUCCEEDED, FAILED or CANCELED", job_id=report.job_id)
    check_text("failure_reason", report.failure_reason, limits.MAX_REASON_CHARACTERS)
    check_text("output_summary", report.output_summary, limits.MAX_REASON_CHARACTERS)
