"""Metrics, read from the real client's registry."""

import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from holdfast.contrib.prometheus import Prometheus
from holdfast.core.commands import Completed, Failed, HandedBack, Outcome, Stopped
from holdfast.core.errors import IdempotencyConflict, Unavailable, UsageError
from holdfast.core.failures import Category, Failure
from tests.unit.contrib.driving import JOB_ID, execute, new_job, submit

LABELS = {"type": "resize", "queue": "media"}
TEMPORARY = Failure(category=Category.TEMPORARY)
PERMANENT = Failure(category=Category.PERMANENT)
CANCELLED = Failure(category=Category.CANCELLED)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def middleware(registry: CollectorRegistry) -> Prometheus:
    return Prometheus(registry)


async def test_accepted_jobs_are_counted_by_type_and_queue_and_duplicates_apart(
    middleware: Prometheus, registry: CollectorRegistry
) -> None:
    await submit(middleware, [new_job(), new_job(), new_job(queue="other")])
    await submit(middleware, [new_job()], is_duplicate=True)
    name = "holdfast_jobs_submitted_total"
    assert registry.get_sample_value(name, {**LABELS, "is_duplicate": "false"}) == 2
    assert registry.get_sample_value(name, {**LABELS, "is_duplicate": "true"}) == 1
    assert registry.get_sample_value(name, {**LABELS, "queue": "other", "is_duplicate": "false"}) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unavailable("away"), "unavailable"),
        (IdempotencyConflict(job_type="resize", key="k", existing_id=JOB_ID, problem="x"), "idempotency_conflict"),
        (TimeoutError(), "TimeoutError"),
    ],
)
async def test_a_refused_submit_is_counted_by_its_reason_and_stays_refused(
    middleware: Prometheus, registry: CollectorRegistry, error: Exception, code: str
) -> None:
    with pytest.raises(type(error)):
        await submit(middleware, [new_job()], error=error)
    assert registry.get_sample_value("holdfast_submit_errors_total", {**LABELS, "error": code}) == 1


@pytest.mark.parametrize(
    ("outcome", "attempt", "expected"),
    [
        (Completed(), 1, "completed"),
        (Failed(TEMPORARY, retry_in_seconds=1.0), 1, "retried"),
        (Failed(TEMPORARY, retry_in_seconds=1.0), 3, "dead_letter"),
        (Failed(TEMPORARY), 1, "dead_letter"),
        (Failed(PERMANENT), 1, "failed"),
        (Failed(CANCELLED), 1, "cancelled"),
        (Stopped(), 1, "cancelled"),
        (HandedBack(), 1, "handed_back"),
    ],
)
async def test_an_attempt_is_counted_and_timed_by_its_outcome(
    middleware: Prometheus, registry: CollectorRegistry, outcome: Outcome, attempt: int, expected: str
) -> None:
    assert await execute(middleware, outcome, attempt=attempt) is outcome
    labels = {**LABELS, "outcome": expected}
    assert registry.get_sample_value("holdfast_attempts_started_total", LABELS) == 1
    assert registry.get_sample_value("holdfast_attempts_ended_total", labels) == 1
    assert registry.get_sample_value("holdfast_attempt_duration_seconds_count", labels) == 1


async def test_while_an_attempt_is_at_work_it_is_counted_as_such(
    middleware: Prometheus, registry: CollectorRegistry
) -> None:
    seen: list[float | None] = []

    async def handler() -> None:
        seen.append(registry.get_sample_value("holdfast_attempts_running", LABELS))

    await execute(middleware, Completed(), handler=handler)
    assert seen == [1]
    assert registry.get_sample_value("holdfast_attempts_running", LABELS) == 0


async def test_what_a_middleware_further_in_raises_goes_on_and_is_counted(
    middleware: Prometheus, registry: CollectorRegistry
) -> None:
    with pytest.raises(LookupError):
        await execute(middleware, LookupError("inside"))
    assert registry.get_sample_value("holdfast_attempts_ended_total", {**LABELS, "outcome": "raised"}) == 1
    assert registry.get_sample_value("holdfast_attempts_running", LABELS) == 0


async def test_buckets_are_the_callers_to_choose(registry: CollectorRegistry) -> None:
    await execute(Prometheus(registry, duration_buckets=(1, 7)), Completed())
    assert b'le="7.0"' in generate_latest(registry)


def test_a_second_one_on_a_registry_is_refused(middleware: Prometheus, registry: CollectorRegistry) -> None:
    with pytest.raises(UsageError, match=r"one Prometheus\(\) a registry"):
        Prometheus(registry)


@pytest.mark.parametrize(("package", "extra"), [("prometheus_client", "prometheus"), ("opentelemetry", "otel")])
def test_without_the_package_the_error_says_what_to_install(package: str, extra: str) -> None:
    module = {"prometheus": "prometheus", "otel": "opentelemetry"}[extra]
    program = f"import sys; sys.modules[{package!r}] = None; import holdfast.contrib.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'holdfast[{extra}]'")
