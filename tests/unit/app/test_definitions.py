"""What @app.job makes of a function, and what it refuses, with the fix."""

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Holdfast, InvalidInput, Isolation, JobType, Priority, Retry, UsageError
from holdfast.core import limits
from holdfast.core.job import DEFAULT_TIMEOUTS
from holdfast.core.retry import DEFAULT_RETRY


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://")


def plain(path: str) -> None:
    """What it does."""


async def coroutine(path: str) -> None: ...


def with_context(ctx: Context, path: str) -> str:
    return f"{ctx} {path}"


# what it makes


def test_a_job_type_has_its_functions_name_and_documentation(app: Holdfast) -> None:
    job_type = app.job(plain)
    assert job_type.name == "plain"
    assert app.job(name="other")(coroutine).name == "other"
    assert inspect.getdoc(job_type) == "What it does."
    assert list(inspect.signature(job_type).parameters) == ["path"]
    assert set(app.registry) == {"plain", "other"}


def test_calling_a_job_type_runs_its_function(app: Holdfast) -> None:
    @app.job
    def add(a: int, b: int = 2) -> int:
        return a + b

    context: Any = "context"
    assert add(1) == 3
    assert app.job(with_context)(context, "a.png") == "context a.png"


def test_functions_run_where_they_can_unless_told_otherwise(app: Holdfast) -> None:
    assert app.job(plain).handler.isolation is Isolation.THREAD
    assert app.job(coroutine).handler.isolation is Isolation.LOOP
    assert app.job(name="killable", isolation="process")(coroutine).handler.isolation is Isolation.PROCESS
    assert app.job(name="other", isolation=Isolation.PROCESS)(plain).handler.isolation is Isolation.PROCESS


def test_a_handler_knows_what_was_said_of_it() -> None:
    app = Holdfast("memory://", permanent=[KeyError], result_limit=77, execution_limit=timedelta(hours=2))
    retry = Retry(custom=lambda attempt, _initial, _maximum: attempt)
    handler = app.job(permanent=(ValueError,), retry=retry, timeout=timedelta(minutes=90))(plain).handler
    assert handler.permanent == (KeyError, ValueError)
    assert handler.result_limit_bytes == 77
    assert handler.execution_seconds == 5400.0
    assert handler.custom_delay is retry.custom
    assert app.job(coroutine).handler.execution_seconds == 7200.0


def test_a_job_that_leaves_everything_at_its_default_shares_the_defaults(app: Holdfast) -> None:
    """NewJob.encoded_options sees a plain job by identity."""
    job = app.job(plain).call("a").new_job()
    assert job.timeouts is DEFAULT_TIMEOUTS
    assert job.retry is DEFAULT_RETRY
    assert job.encoded_options is None
    assert job.is_plain


def test_a_job_types_options_are_its_jobs(app: Holdfast) -> None:
    retry = Retry(max_attempts=7)
    job_type = app.job(
        queue="media", priority=Priority.HIGH, retry=retry, timeout=60, visibility=30, lifetime=3600, tags={"a": "b"}
    )(plain)
    job = job_type.call("a").new_job()
    assert (job.type, job.queue, job.priority, job.retry) == ("plain", "media", Priority.HIGH, retry)
    assert (job.timeouts.execution, job.timeouts.visibility, job.timeouts.lifetime) == (60, 30, 3600)
    assert job.tags == {"a": "b"}
    assert job_type.queue == "media"
    assert app.job(coroutine).queue == limits.DEFAULT_QUEUE


def test_what_is_written_to_one_jobs_tags_is_no_others(app: Holdfast) -> None:
    job_type = app.job(tags={"a": "b"})(plain)
    first: Any = job_type.call("a").new_job().tags
    first["trace"] = "1"
    assert job_type.call("a").new_job().tags == {"a": "b"}


# what it refuses


def test_two_functions_with_one_name_are_refused(app: Holdfast) -> None:
    app.job(plain)
    with pytest.raises(UsageError, match=r"two functions are called 'plain'.*@app\.job\(name=…\)"):
        app.job(name="plain")(coroutine)


def test_the_same_function_may_be_defined_again_by_a_reload(app: Holdfast) -> None:
    app.job(plain)
    app.job(plain)


@pytest.mark.parametrize(
    ("options", "function", "says"),
    [
        ({"timeout": 1801}, plain, r"the timeout of 'plain' is 1801 s, the limit 1800 s.*execution_limit"),
        ({"timeout": timedelta(hours=1)}, plain, "the limit 1800 s"),
        ({"isolation": "loop"}, plain, "'plain' is a plain function, which runs with isolation='thread' or 'process'"),
        ({"isolation": "thread"}, coroutine, "'coroutine' is a coroutine function"),
        ({"isolation": "greenlet"}, plain, "isolation of 'plain' is 'greenlet'; write 'process'"),
        ({"isolation": "process"}, lambda: None, "a lambda has no name"),
        ({"permanent": ["ValueError"]}, plain, "'ValueError', which is not an exception class"),
        ({"permanent": 3}, plain, "3, which is not an exception class"),
        ({}, functools.partial(plain, "a"), "@app.job wants a function, not functools.partial"),
        ({}, print, "wants a function"),
        ({}, dict, "wants a function"),
        ({"queue": ""}, plain, "queue: has 0 characters"),
        ({"name": "x" * 256}, plain, "type: has 256 characters"),
        ({"priority": 1}, plain, "priority: is 1"),
        ({"retry": 3}, plain, "retry: is int, not a Retry"),
        ({"retry": Retry(max_attempts=0)}, plain, "retry.max_attempts: is 0"),
        ({"timeout": "60"}, plain, "timeouts.execution: is '60'"),
        ({"visibility": 0}, plain, "timeouts.visibility: is 0"),
        ({"tags": {"a": 1}}, plain, "tags"),
    ],
)
def test_a_definition_that_cannot_be_is_refused_where_it_stands(
    app: Holdfast, options: Any, function: Callable[..., Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        app.job(**options)(function)
    assert not app.registry


def test_a_function_that_no_child_could_find_is_refused_for_process_isolation(app: Holdfast) -> None:
    def inside() -> None: ...

    with pytest.raises(UsageError, match="cannot find a function inside another one"):
        app.job(isolation="process")(inside)


def test_an_unknown_option_is_named_with_the_known_ones(app: Holdfast) -> None:
    misspelt: Any = {"que": "media"}
    with pytest.raises(
        TypeError, match=r"@app\.job\(\) got an unexpected keyword argument 'que'; it takes queue, priority"
    ):
        app.job(**misspelt)


def test_a_job_type_is_not_decorated_twice(app: Holdfast) -> None:
    job_type: Any = app.job(plain)
    assert isinstance(job_type, JobType)
    with pytest.raises(UsageError, match="'plain' is a job type already"):
        app.job(job_type)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"payload_limit": 17_000_000}, "payload_limit"),
        ({"result_limit": 0}, "result_limit"),
        ({"permanent": [3]}, "not an exception"),
    ],
)
def test_an_app_that_cannot_be_is_refused(options: Any, says: str) -> None:
    with pytest.raises((InvalidInput, UsageError), match=says):
        Holdfast("memory://", **options)


def test_the_url_comes_from_the_environment_or_is_a_file_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "memory://")
    assert Holdfast().url == "memory://"
    assert Holdfast("sqlite:///other.db").url == f"sqlite:///{Path.cwd() / 'other.db'}"
    monkeypatch.delenv("HOLDFAST_URL")
    assert Holdfast().url == f"sqlite:///{Path.cwd() / 'holdfast.db'}"


def test_an_app_shows_no_password() -> None:
    assert "secret" not in repr(Holdfast("postgresql://me:secret@host/app"))
