"""What is said of one submit, as the store is given it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import Holdfast, Priority, Retry, UsageError
from holdfast.app.options import JobOptions, SubmitOptions
from holdfast.core.commands import NewJob
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import FIELDS
from holdfast.testing.factories import field_values

NOW = datetime(2027, 1, 1, tzinfo=UTC)
app = Holdfast("memory://")


@app.job(queue="media", tags={"team": "blue"}, timeout=60, lifetime=7200)
def resize(path: str) -> None: ...


def nothing() -> None: ...


def job_with(**options: Any) -> NewJob:
    return resize.options(**options).call("a.png").new_job()


def test_every_option_reaches_the_job() -> None:
    at = datetime(2027, 1, 1, tzinfo=UTC)
    retry = Retry(max_attempts=9)
    job = job_with(
        run_at=at,
        key="order-7",
        key_window=timedelta(hours=2),
        queue="slow",
        priority=Priority.BULK,
        retry=retry,
        timeout=timedelta(seconds=30),
        visibility=20,
        lifetime=timedelta(days=1),
        tags={"customer": "7"},
        correlation_id="c-1",
        callback_url="https://example.org/done",
        group="customer 7",
    )
    assert (job.run_at, job.key, job.key_window_seconds, job.queue) == (at, "order-7", 7200.0, "slow")
    assert (job.priority, job.retry, job.correlation_id) == (Priority.BULK, retry, "c-1")
    assert (job.timeouts.execution, job.timeouts.visibility, job.timeouts.lifetime) == (30.0, 20, 86400.0)
    assert job.tags == {"team": "blue", "customer": "7"}
    assert (job.callback_url, job.group) == ("https://example.org/done", "customer 7")
    assert job_with(delay=timedelta(minutes=1)).delay_seconds == 60.0
    assert job_with(delay=1.5).delay_seconds == 1.5


def test_every_field_of_a_job_has_an_option() -> None:
    names = {
        "delay_seconds": "delay",
        "key_window_seconds": "key_window",
        "dependencies": "after",
        "timeouts": "timeout",
    }
    given = {names.get(name, name) for name in FIELDS.keys() - {"id", "type", "payload"}}
    assert given <= SubmitOptions.__annotations__.keys()


def test_a_job_types_own_options_are_fields_of_its_jobs() -> None:
    own: dict[str, Any] = {
        "name": "typed",
        "isolation": "thread",
        "permanent": (),
        "timeout": 1,
        "visibility": 2,
        "lifetime": 3,
    }
    values = {name: value for name, value in field_values(NOW).items() if name in JobOptions.__annotations__}
    job = Holdfast("memory://").job(**own, **values)(nothing).new_job()
    assert {name: getattr(job, name) for name in values} == values
    assert JobOptions.__annotations__.keys() == own.keys() | values.keys()


def test_what_is_not_said_is_the_job_types() -> None:
    job = job_with(delay=1)
    assert (job.queue, job.tags, job.timeouts.execution, job.timeouts.lifetime) == ("media", {"team": "blue"}, 60, 7200)
    assert job_with(queue=None, key=None, after=None).queue == "media"


def test_a_job_waits_for_handles_calls_and_ids_alike() -> None:
    call, other = resize.call("a.png"), uuid4()
    job = job_with(after=[call, resize.handle(other), other, str(other)], after_any=call)
    assert job.dependencies == (
        Dependency(call.id),
        Dependency(other),
        Dependency(call.id, DependencyKind.AFTER_ANY),
    )
    assert job_with(after=str(other)).dependencies == (Dependency(other),)
    assert job_with(after=[]).dependencies == ()


@pytest.mark.parametrize("given", [["nonsense"], [3], "nonsense", [None]])
def test_what_is_no_job_cannot_be_waited_for(given: Any) -> None:
    with pytest.raises(UsageError, match="is not a job; give a handle, a call or a job's UUID"):
        resize.options(after=given)


def test_a_jobs_timeout_may_be_shorter_than_its_handlers_never_longer() -> None:
    with pytest.raises(UsageError, match=r"the timeout of a 'resize' job is 61 s, the limit 60 s.*@app\.job"):
        resize.options(timeout=61)


def test_an_unknown_option_is_named() -> None:
    misspelt: Any = {"dely": 3}
    with pytest.raises(TypeError, match=r"resize\.options\(\) got an unexpected keyword argument 'dely'"):
        resize.options(**misspelt)


def test_a_call_is_one_job_to_be() -> None:
    call = resize.call("a.png")
    first, again = call.new_job(), call.new_job()
    assert first.id == again.id == call.id
    assert first.id.version == 4
    assert first is not again
    assert resize.call("a.png").id != call.id


def test_a_call_with_a_connection_is_refused_with_the_way() -> None:
    with pytest.raises(UsageError, match=r"app\.submit_many\(calls, connection=…\)"):
        resize.options(connection=object()).call("a.png")


def test_options_leave_the_job_type_as_it_was() -> None:
    resize.options(tags={"a": "b"}, queue="other").call("a.png")
    job = resize.call("a.png").new_job()
    assert (job.queue, job.tags) == ("media", {"team": "blue"})


def test_an_id_may_be_text() -> None:
    assert app.handle("6f1f3fd4-3f2c-4d2f-8b6e-0d5c0d6f9f1e").id == UUID("6f1f3fd4-3f2c-4d2f-8b6e-0d5c0d6f9f1e")
