"""Traces for OpenTelemetry, from the submit of a job to each of its attempts. ``pip install 'holdfast[otel]'``.

A submit is a PRODUCER span. Its context travels with the jobs as the tag ``traceparent`` (and ``tracestate``), in the
W3C's form, so that any worker on any machine goes on from it: each attempt is a CONSUMER span below it, current while
the handler runs. Children that an attempt spawns carry the attempt's own context on.

OTEL-1. A tag that the caller gave is never replaced, and a job never refused for ours: without room it is left out.
OTEL-2. Tracing never fails a submit or an attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.contrib.outcomes import ended
from holdfast.core import limits
from holdfast.core.commands import Completed, Failed, NewJob, Outcome, Submitted
from holdfast.worker.context import Context
from holdfast.worker.middleware import Execute, Execution, Middleware, Submit

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    raise ImportError("holdfast.contrib.opentelemetry needs more: pip install 'holdfast[otel]'") from error

TRACEPARENT_TAG: Final = "traceparent"

_SYSTEM: Final = "holdfast"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetry(Middleware):
    """``Holdfast(middleware=[OpenTelemetry()])``.

    ``is_linked`` begins a new trace with each attempt and links it to the submit, which suits jobs that wait for days.
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None, *, is_linked: bool = False) -> None:
        self._tracer = trace.get_tracer("holdfast", tracer_provider=tracer_provider)
        self._is_linked = is_linked

    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:
        with self._tracer.start_as_current_span(
            _submit_name(jobs), kind=trace.SpanKind.PRODUCER, attributes=_submit_attributes(jobs)
        ) as span:
            _send_along(jobs)
            answers = await proceed()
            if len(answers) == 1:
                span.set_attribute("messaging.message.id", str(answers[0].job_id))
                span.set_attribute("holdfast.job.is_duplicate", answers[0].is_duplicate)
            return answers

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        context = execution.context
        sender = _PROPAGATOR.extract(context.tags)
        link = trace.get_current_span(sender).get_span_context()
        with self._tracer.start_as_current_span(
            f"execute {context.type}",
            context=trace.set_span_in_context(trace.INVALID_SPAN) if self._is_linked else sender,
            kind=trace.SpanKind.CONSUMER,
            links=[trace.Link(link)] if self._is_linked and link.is_valid else None,
            attributes=_execute_attributes(context),
        ) as span:
            outcome = await proceed()
            span.set_attribute("holdfast.outcome", ended(outcome, context).value)
            if isinstance(outcome, Failed):
                _record(span, outcome, execution.error)
            elif isinstance(outcome, Completed):
                _send_along(outcome.spawn)
            return outcome


def _submit_name(jobs: Sequence[NewJob]) -> str:
    """Few names, whatever is submitted together."""
    types = {job.type for job in jobs}
    return f"submit {types.pop()}" if len(types) == 1 else "submit"


def _submit_attributes(jobs: Sequence[NewJob]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": "submit",
        "messaging.operation.type": "send",
    }
    attributes |= _if_one("messaging.destination.name", (job.queue for job in jobs))
    attributes |= _if_one("holdfast.job.type", (job.type for job in jobs))
    attributes |= _if_one("messaging.message.conversation_id", (job.correlation_id or "" for job in jobs))
    if len(jobs) > 1:
        attributes["messaging.batch.message_count"] = len(jobs)
    return attributes


def _if_one(name: str, values: Iterable[str]) -> Mapping[str, AttributeValue]:
    """What all have in common."""
    different = set(values)
    return {name: value} if len(different) == 1 and (value := different.pop()) else {}


def _execute_attributes(context: Context) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": "execute",
        "messaging.operation.type": "process",
        "messaging.destination.name": context.queue,
        "messaging.message.id": str(context.job_id),
        "holdfast.job.type": context.type,
        "holdfast.attempt": context.attempt,
        "holdfast.max_attempts": context.max_attempts,
        "holdfast.attempt_id": str(context.attempt_id),
    }
    if context.correlation_id:
        attributes["messaging.message.conversation_id"] = context.correlation_id
    return attributes


def _send_along(jobs: Sequence[NewJob]) -> None:
    """Give the jobs the current span's context (OTEL-1)."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    short = {name: value for name, value in carrier.items() if len(value) <= limits.MAX_TAG_CHARACTERS}
    for job in jobs:
        if TRACEPARENT_TAG not in job.tags and len(job.tags) + len(short) <= limits.MAX_TAGS:
            job.tags = {**short, **job.tags}


def _record(span: trace.Span, failed: Failed, error: BaseException | None) -> None:
    failure = failed.failure
    span.set_status(trace.Status(trace.StatusCode.ERROR, failure.message))
    span.set_attribute("error.type", failure.error_type or failure.code or failure.category.value)
    span.set_attribute("holdfast.failure.category", failure.category.value)
    if error is not None:
        span.record_exception(error)
        return
    # From a child process only the text comes back.
    text = {"type": failure.error_type, "message": failure.message, "stacktrace": failure.trace}
    span.add_event("exception", {f"exception.{name}": value for name, value in text.items() if value})
