"""The durable engine as a server of the public API: the same five methods, on SQLite or PostgreSQL.

How it works: a submit goes through the engine, where callers that come together share a commit; a worker
of our own in the same process does the work; everything else is a read of the store. Nothing is kept here: the server
may be killed at any instant, and several of them may work on one database.

DURABLE-1. SubmitJob answers after the commit. What it has accepted survives every crash.
DURABLE-2. The same key with the same spec is the same job, for as long as the engine keeps keys (24 h), across
    restarts.
DURABLE-3. A database that does not answer is UNAVAILABLE before the default deadline of the method has passed;
    ListJobs, which may have much to read, has until shortly before the deadline of the call.
DURABLE-4. A cancel reaches a job that runs in this process at once, and one that runs in another with its next
    heartbeat.
"""

import asyncio
import logging
from collections.abc import Awaitable
from time import time
from typing import Final, TypeVar
from uuid import UUID, uuid4

from holdfast.core.commands import CancelOutcome, Submit
from holdfast.core.errors import IdempotencyConflict
from holdfast.core.failures import PermanentError
from holdfast.core.job import Job
from holdfast.core.limits import MAX_TIMEOUT_SECONDS, SHORT_GRACE_SECONDS
from holdfast.core.ports import Store
from holdfast.engine.engine import Engine
from holdfast.rpc import checks, limits
from holdfast.rpc.client import SERVICE
from holdfast.rpc.engine_jobs import (
    QUEUE,
    REASON_TYPE,
    TYPE,
    Envelope,
    Reason,
    Spec,
    StructSignature,
    envelope,
    new_job,
    new_reason,
    reason_id,
    reason_of,
    result_answer,
    status_answer,
    status_of,
)
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.listing import list_jobs
from holdfast.rpc.refusals import key_conflict, not_found, unavailable
from holdfast.rpc.serving import CLIENT, Call, Server, Service, anomaly
from holdfast.rpc.work import do_work
from holdfast.wiring import create_delivery, create_store, settled_url
from holdfast.worker.context import Context
from holdfast.worker.handler import Handler, Isolation, Registry
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

LOG: Final = logging.getLogger("holdfast.rpc")
NAME: Final = "durable"
ANSWER_FRACTION: Final = 0.8
"""Of a method's deadline is how long the database is waited for (DURABLE-3)."""
ANSWER_SECONDS: Final = 0.1
"""What ListJobs leaves of its caller's time to say that the database takes longer; a tenth where that is less."""

Answer = TypeVar("Answer")


class DurableServer:
    """``start`` and ``stop``, once. ``slots`` jobs run at a time; with 0 this server takes jobs and others run them."""

    def __init__(self, url: str, *, slots: int = limits.TOTAL_WORKER_SLOTS, log: logging.Logger = LOG) -> None:
        self._url = settled_url(url)
        store = create_store(self._url)
        self.engine = Engine(store, submission_seconds=_patience_seconds("SubmitJob"))
        """To be opened by whoever starts the server: Unavailable where the database is away, and may be tried again."""
        self._work = Work()
        self._methods = Methods(self.engine, self._work, log)
        self._server = Server(NAME, [self._methods.service()], log=log)
        self._worker = self._make_worker(store, slots) if slots else None

    async def start(self, listen: str) -> str:
        """Where it listens. ConfigError where the port is taken, before a job is claimed. After ``engine.open``."""
        address = await self._server.start(listen)
        if self._worker is not None:
            await self._worker.start()
        return address

    async def wait_stopped(self) -> None:
        """Until ``stop``; or until the worker, which should not end by itself, has."""
        if self._worker is None:
            await self._server.wait_stopped()
        else:
            await self._worker.wait_stopped()

    async def stop(self, grace_seconds: float = limits.STOP_GRACE_SECONDS) -> None:
        """No new calls, those that are being served end; jobs that run may end, or are handed back."""
        await self._server.stop(grace_seconds)
        try:
            if self._worker is not None:
                self._worker.stop()
                await self._worker.wait_stopped()
        finally:
            await self.engine.close()

    def hurry(self) -> None:
        """Wait for no job that runs: all are handed back."""
        if self._worker is not None:
            self._worker.stop_now()

    def _make_worker(self, store: Store, slots: int) -> Worker:
        is_shared = self._url.startswith("memory:")
        return Worker(
            store,
            delivery=create_delivery(store),
            registry=self._work.registry(),
            options=WorkerOptions(
                concurrency=slots,
                queues=(QUEUE,),
                # None is claimed ahead of a free slot: it would read RUNNING while it waits.
                limits={QUEUE: slots},
                grace_seconds=SHORT_GRACE_SECONDS,
                heartbeat_seconds=limits.HEARTBEAT_INTERVAL_MS / 1000,
            ),
            create_pulse_store=None if is_shared else lambda: create_store(self._url),
        )


class Work:
    """The built-in handlers, and which jobs they have in hand."""

    def __init__(self) -> None:
        self._sleeping: dict[UUID, asyncio.Future[None]] = {}

    def registry(self) -> Registry:
        registry = Registry()
        for name, function, kind in ((TYPE, self._run, Spec), (REASON_TYPE, self._keep, Reason)):
            registry.add(
                Handler(
                    name=name,
                    function=function,
                    isolation=Isolation.LOOP,
                    is_async=True,
                    signature=StructSignature(kind),
                    execution_seconds=MAX_TIMEOUT_SECONDS,
                    permanent=(Exception,),
                )
            )
        return registry

    def stop(self, job_id: UUID) -> None:
        """A cancel was requested: end the job's sleep, if it sleeps here."""
        sleeping = self._sleeping.get(job_id)
        if sleeping is not None and not sleeping.done():
            sleeping.set_result(None)

    async def _run(self, ctx: Context, given: Spec) -> Envelope:
        spec = public.JobSpec(
            job_type=given.job_type,
            work_duration_ms=given.work_duration_ms,
            payload_size_bytes=given.payload_size_bytes,
            labels=given.labels,
        )
        output = await do_work(spec, sleep=lambda seconds: self._sleep(ctx.job_id, seconds))
        if output.failure_reason:
            raise PermanentError(output.output_summary, code=output.failure_reason)
        return envelope(output)

    async def _keep(self, ctx: Context, given: Reason) -> None:
        """The reason of a cancel: that it is kept is all there is to do."""

    async def _sleep(self, job_id: UUID, seconds: float) -> None:
        stopped = self._sleeping[job_id] = asyncio.get_running_loop().create_future()
        try:
            if (await asyncio.wait((stopped,), timeout=seconds))[0]:
                # The cancel is in the store already: whatever ends the attempt now, the job is canceled.
                raise PermanentError("canceled")
        finally:
            # Of a job whose lease was lost and taken again here, both attempts sleep for a moment.
            if self._sleeping.get(job_id) is stopped:
                del self._sleeping[job_id]


class Methods:
    def __init__(self, engine: Engine, work: Work, log: logging.Logger) -> None:
        self._engine = engine
        self._work = work
        self._log = log

    def service(self) -> Service:
        return Service(
            descriptor=SERVICE,
            handlers={
                "SubmitJob": self.submit_job,
                "GetJobStatus": self.get_job_status,
                "GetJobResult": self.get_job_result,
                "CancelJob": self.cancel_job,
                "ListJobs": self.list_jobs,
            },
            allowed=dict.fromkeys(SERVICE.methods_by_name, frozenset({CLIENT})),
        )

    async def submit_job(self, request: public.SubmitJobRequest, _: Call) -> public.SubmitJobResponse:
        spec = checks.check_submit(request)
        job = new_job(uuid4(), spec, key=request.client_request_id)
        try:
            (submitted,) = await self._engine.submit(Submit(jobs=(job,)))
        except IdempotencyConflict as error:
            raise key_conflict(request.client_request_id, job_id=str(error.existing_id)) from error
        return public.SubmitJobResponse(
            job_id=str(submitted.job_id), initial_status=public.QUEUED, accepted_at_ms=int(time() * 1000)
        )

    async def get_job_status(self, request: public.GetJobStatusRequest, _: Call) -> public.GetJobStatusResponse:
        job_id = UUID(checks.check_job_id(request.job_id))
        return status_answer(_found(job_id, *await self._read("GetJobStatus", job_id)))

    async def get_job_result(self, request: public.GetJobResultRequest, _: Call) -> public.GetJobResultResponse:
        job_id = UUID(checks.check_job_id(request.job_id))
        job, reason = await self._read("GetJobResult", job_id, reason_id(job_id))
        answer = result_answer(_found(job_id, job), cancel_reason=reason_of(reason))
        if answer is None:
            message = "the job is terminal and has no readable result"
            anomaly(self._log, message, job_id=request.job_id, method="GetJobResult")
            raise unavailable(f"{message}; try again", job_id=request.job_id)
        return answer

    async def cancel_job(self, request: public.CancelJobRequest, _: Call) -> public.CancelJobResponse:
        job_id = UUID(checks.check_job_id(request.job_id))
        checks.check_reason(request.reason)
        return await _in_time("CancelJob", self._cancel(job_id, request.reason))

    async def _cancel(self, job_id: UUID, reason: str) -> public.CancelJobResponse:
        job = _found(job_id, *await self._engine.read([job_id]))
        if job.state.is_terminal:
            return _cancel_answer(job, is_already_terminal=True)
        if reason:
            # First the reason, then the cancel: a crash between them leaves a reason for nothing, not a cancel
            # whose reason was accepted and lost.
            await self._engine.submit(Submit(jobs=(new_reason(job_id, reason),)))
        (answer,) = await self._engine.cancel([job_id])
        if answer.outcome is CancelOutcome.REQUESTED:
            self._work.stop(job_id)
        (now,) = await self._engine.read([job_id])
        return _cancel_answer(_found(job_id, now), is_already_terminal=answer.outcome is CancelOutcome.ALREADY_ENDED)

    async def list_jobs(self, request: public.ListJobsRequest, call: Call) -> public.ListJobsResponse:
        statuses = checks.check_statuses("status_filter", request.status_filter)
        offset, size = checks.check_page(request.page)
        sort = checks.check_sort(request.sort)
        answer = list_jobs(self._engine, statuses, offset=offset, size=size, sort=sort)
        left = call.seconds_left()
        patience = None if left is None else left - min(ANSWER_SECONDS, left / 10)
        return await _in_time("ListJobs", answer, patience_seconds=patience)

    async def _read(self, method: str, *ids: UUID) -> list[Job | None]:
        return await _in_time(method, self._engine.read(ids))


def _found(job_id: UUID, job: Job | None) -> Job:
    if job is None or job.type != TYPE:
        raise not_found(str(job_id))
    return job


def _cancel_answer(job: Job, *, is_already_terminal: bool) -> public.CancelJobResponse:
    return public.CancelJobResponse(
        job_id=str(job.id), accepted=True, current_status=status_of(job), already_terminal=is_already_terminal
    )


def _patience_seconds(method: str) -> float:
    return limits.PUBLIC_DEADLINES_MS[method] / 1000 * ANSWER_FRACTION


async def _in_time(method: str, answer: Awaitable[Answer], *, patience_seconds: float | None = None) -> Answer:
    patience = _patience_seconds(method) if patience_seconds is None else patience_seconds
    try:
        async with asyncio.timeout(patience):
            return await answer
    except TimeoutError:
        advice = "with a later deadline, or nearer to the start, or by status" if method == "ListJobs" else "again"
        raise unavailable(f"the database did not answer within {patience:.1f} s; try {advice}") from None
