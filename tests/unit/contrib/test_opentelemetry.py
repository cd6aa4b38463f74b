"""Traces, as the real SDK exports them; cites OTEL-1 and OTEL-2."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast.contrib.opentelemetry import OpenTelemetry
from holdfast.core import limits
from holdfast.core.commands import Completed, Failed, HandedBack, Stopped
from holdfast.core.errors import Unavailable
from holdfast.core.failures import Category, Failure
from tests.unit.contrib.driving import JOB_ID, execute, new_job, submit

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def middleware(provider: TracerProvider) -> OpenTelemetry:
    return OpenTelemetry(provider)


def only_span(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def attributes(span: ReadableSpan) -> dict[str, object]:
    assert span.attributes is not None
    return dict(span.attributes)


def traceparent(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


async def test_a_submit_is_a_producer_span_whose_context_travels_in_a_tag(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    job = new_job(tags={"customer": "7"}, correlation_id="order-9")
    await submit(middleware, [job])
    span = only_span(exporter)
    assert (span.name, span.kind) == ("submit resize", SpanKind.PRODUCER)
    assert job.tags == {
        "customer": "7",
        "traceparent": traceparent(span),
    }
    assert attributes(span) == {
        "messaging.system": "holdfast",
        "messaging.operation.name": "submit",
        "messaging.operation.type": "send",
        "messaging.destination.name": "media",
        "messaging.message.id": str(job.id),
        "messaging.message.conversation_id": "order-9",
        "holdfast.job.type": "resize",
        "holdfast.job.is_duplicate": False,
    }


async def test_jobs_submitted_together_share_a_span_that_says_how_many(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    jobs = [new_job(), new_job(type="mail", queue="post")]
    await submit(middleware, jobs)
    span = only_span(exporter)
    assert span.name == "submit"
    assert attributes(span)["messaging.batch.message_count"] == 2
    assert "messaging.destination.name" not in attributes(span)
    assert jobs[0].tags == jobs[1].tags != {}


async def test_a_submit_is_below_what_the_caller_was_doing(
    middleware: OpenTelemetry, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with provider.get_tracer("caller").start_as_current_span("request") as request:
        await submit(middleware, [new_job()])
    parent = exporter.get_finished_spans()[0].parent
    assert parent is not None
    assert parent.span_id == request.get_span_context().span_id


async def test_a_refused_submit_is_an_error_and_stays_refused(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(Unavailable):
        await submit(middleware, [new_job()], error=Unavailable("away"))
    span = only_span(exporter)
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


async def test_an_attempt_is_a_consumer_span_below_the_submit(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    job = new_job()
    await submit(middleware, [job])
    await execute(middleware, Completed(), tags=job.tags, correlation_id="order-9", attempt=2)
    producer, consumer = exporter.get_finished_spans()
    assert consumer.parent is not None
    assert producer.context is not None
    assert consumer.context is not None
    assert consumer.parent.span_id == producer.context.span_id
    assert consumer.context.trace_id == producer.context.trace_id
    assert (consumer.name, consumer.kind) == ("execute resize", SpanKind.CONSUMER)
    said = attributes(consumer)
    said.pop("holdfast.attempt_id")
    assert said == {
        "messaging.system": "holdfast",
        "messaging.operation.name": "execute",
        "messaging.operation.type": "process",
        "messaging.destination.name": "media",
        "messaging.message.id": str(JOB_ID),
        "messaging.message.conversation_id": "order-9",
        "holdfast.job.type": "resize",
        "holdfast.attempt": 2,
        "holdfast.max_attempts": 3,
        "holdfast.outcome": "completed",
    }


async def test_linked_attempts_begin_a_trace_of_their_own(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    await execute(OpenTelemetry(provider, is_linked=True), Completed(), tags={"traceparent": TRACEPARENT})
    span = only_span(exporter)
    assert span.parent is None
    (link,) = span.links
    assert f"{link.context.span_id:016x}" == "b7ad6b7169203331"


@pytest.mark.parametrize("tags", [{}, {"traceparent": "nonsense"}])
@pytest.mark.parametrize("is_linked", [False, True])
async def test_a_job_without_a_usable_context_begins_a_trace(
    provider: TracerProvider, exporter: InMemorySpanExporter, tags: dict[str, str], is_linked: bool
) -> None:
    with provider.get_tracer("worker").start_as_current_span("whatever the loop was doing"):
        await execute(OpenTelemetry(provider, is_linked=is_linked), Completed(), tags=tags)
    span = exporter.get_finished_spans()[0]
    assert (span.parent, list(span.links)) == (None, [])


async def test_what_the_handler_traces_is_below_the_attempt_also_in_a_thread(
    middleware: OpenTelemetry, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("handler")

    def work() -> None:
        with tracer.start_as_current_span("query"):
            pass

    async def handler() -> None:
        work()
        await asyncio.to_thread(work)

    await execute(middleware, Completed(), handler=handler)
    *queries, attempt = exporter.get_finished_spans()
    assert attempt.context is not None
    assert [query.parent.span_id if query.parent else None for query in queries] == [attempt.context.span_id] * 2


async def test_a_failure_is_an_error_with_what_the_handler_raised(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    failure = Failure(category=Category.TEMPORARY, message="no route", error_type="OSError")
    await execute(middleware, Failed(failure, retry_in_seconds=1.0), error=OSError("no route"))
    span = only_span(exporter)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no route")
    assert attributes(span)["error.type"] == "OSError"
    assert attributes(span)["holdfast.failure.category"] == "TEMPORARY"
    assert attributes(span)["holdfast.outcome"] == "retried"
    (event,) = span.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "no route"


async def test_of_a_child_process_the_text_is_recorded(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    failure = Failure(category=Category.SYSTEM, message="killed", code="child_died")
    await execute(middleware, Failed(failure))
    span = only_span(exporter)
    assert attributes(span)["error.type"] == "child_died"
    (event,) = span.events
    assert dict(event.attributes or {}) == {"exception.message": "killed"}


@pytest.mark.parametrize("outcome", [Stopped(), HandedBack()])
async def test_to_be_stopped_is_no_error(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter, outcome: Stopped | HandedBack
) -> None:
    await execute(middleware, outcome)
    assert only_span(exporter).status.status_code is StatusCode.UNSET


async def test_children_carry_on_the_context_of_the_attempt_that_spawned_them(
    middleware: OpenTelemetry, exporter: InMemorySpanExporter
) -> None:
    child = new_job()
    await execute(middleware, Completed(None, (child,)), tags={"traceparent": TRACEPARENT})
    span = only_span(exporter)
    assert child.tags == {"traceparent": traceparent(span)}


async def test_a_context_that_the_caller_gave_is_never_replaced(middleware: OpenTelemetry) -> None:
    job = new_job(tags={"traceparent": TRACEPARENT})
    await submit(middleware, [job])
    assert job.tags == {"traceparent": TRACEPARENT}


async def test_a_job_without_room_for_another_tag_goes_without(middleware: OpenTelemetry) -> None:
    tags = {f"tag{number}": "x" for number in range(limits.MAX_TAGS)}
    job = new_job(tags=tags)
    await submit(middleware, [job])
    assert job.tags == tags


async def test_tags_that_several_jobs_share_are_not_changed_in_place(middleware: OpenTelemetry) -> None:
    shared = {"customer": "7"}
    await submit(middleware, [new_job(tags=shared)])
    assert shared == {"customer": "7"}


async def test_a_state_too_long_for_a_tag_is_left_out(middleware: OpenTelemetry) -> None:
    long = trace.TraceState([("vendor", "x" * 250), ("other", "y" * 200)])
    parent = trace.NonRecordingSpan(
        trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=long)
    )
    job = new_job()
    with trace.use_span(parent):
        await submit(middleware, [job])
    assert set(job.tags) == {"traceparent"}


async def test_without_an_sdk_nothing_is_sent_along_and_nothing_fails() -> None:
    middleware = OpenTelemetry(trace.NoOpTracerProvider())
    job = new_job()
    await submit(middleware, [job])
    assert job.tags == {}
    assert await execute(middleware, Completed()) == Completed()
