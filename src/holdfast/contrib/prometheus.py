"""Metrics for Prometheus: what this process submits and what it executes. ``pip install 'holdfast[prometheus]'``.

``holdfast_jobs_submitted_total`` (created, or found by their key: ``is_duplicate``) ·
``holdfast_submit_errors_total`` by the error's code · ``holdfast_attempts_started_total`` ·
``holdfast_attempts_running`` · ``holdfast_attempts_ended_total`` and ``holdfast_attempt_duration_seconds`` by outcome;
all by job type and queue. Depth and age of queues are the store's to tell, not one process's.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from holdfast.contrib.outcomes import Ended, ended
from holdfast.core.commands import NewJob, Outcome, Submitted
from holdfast.core.errors import HoldfastError, UsageError
from holdfast.worker.middleware import Execute, Execution, Middleware, Submit

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ImportError as error:
    raise ImportError("holdfast.contrib.prometheus needs more: pip install 'holdfast[prometheus]'") from error

DURATION_BUCKETS_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800)
_LABELS: Final = ("type", "queue")


class Prometheus(Middleware):
    """``Holdfast(middleware=[Prometheus()])``; one a registry."""

    def __init__(
        self,
        registry: CollectorRegistry = REGISTRY,
        *,
        duration_buckets: Iterable[float] = DURATION_BUCKETS_SECONDS,
    ) -> None:
        try:
            self._make_metrics(registry, tuple(duration_buckets))
        except ValueError as problem:
            raise UsageError(f"one Prometheus() a registry, and buckets that grow: {problem}") from problem

    def _make_metrics(self, registry: CollectorRegistry, buckets: Sequence[float]) -> None:
        self._submitted = Counter(
            "holdfast_jobs_submitted", "Jobs accepted", (*_LABELS, "is_duplicate"), registry=registry
        )
        self._submit_errors = Counter(
            "holdfast_submit_errors", "Jobs not accepted", (*_LABELS, "error"), registry=registry
        )
        self._started = Counter("holdfast_attempts_started", "Attempts begun", _LABELS, registry=registry)
        self._running = Gauge(
            "holdfast_attempts_running", "Attempts at work", _LABELS, registry=registry, multiprocess_mode="livesum"
        )
        self._ended = Counter("holdfast_attempts_ended", "Attempts over", (*_LABELS, "outcome"), registry=registry)
        self._duration_seconds = Histogram(
            "holdfast_attempt_duration_seconds",
            "From the start of an attempt to its outcome",
            (*_LABELS, "outcome"),
            buckets=buckets,
            registry=registry,
        )

    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:
        try:
            answers = await proceed()
        except Exception as problem:
            name = problem.code if isinstance(problem, HoldfastError) else type(problem).__name__
            for job in jobs:
                self._submit_errors.labels(job.type, job.queue, name).inc()
            raise
        for job, answer in zip(jobs, answers, strict=True):
            self._submitted.labels(job.type, job.queue, str(answer.is_duplicate).lower()).inc()
        return answers

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        context = execution.context
        labels = (context.type, context.queue)
        self._started.labels(*labels).inc()
        began = time.perf_counter()
        how = Ended.RAISED
        with self._at_work(labels):
            try:
                outcome = await proceed()
                how = ended(outcome, context)
                return outcome
            finally:
                self._ended.labels(*labels, how).inc()
                self._duration_seconds.labels(*labels, how).observe(time.perf_counter() - began)

    @contextmanager
    def _at_work(self, labels: tuple[str, str]) -> Iterator[None]:
        running = self._running.labels(*labels)
        running.inc()
        try:
            yield
        finally:
            running.dec()
