"""@app.cron: what gets a place in the calendar, and under which name."""

from typing import Any

import pytest

from holdfast import Holdfast, UsageError


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://")


async def sweep(limit: int = 10) -> int:
    return limit


def test_a_function_becomes_a_job_type_with_its_place_in_the_calendar(app: Holdfast) -> None:
    job_type = app.cron("*/5 * * * *", timezone="Europe/Berlin", queue="media")(sweep)
    (entry,) = app.crons
    assert (entry.name, entry.expression, entry.timezone) == ("sweep", "*/5 * * * *", "Europe/Berlin")
    first, second = entry.make_job(), entry.make_job()
    assert (first.type, first.queue, first.payload.value()) == ("sweep", "media", {})
    assert first.id != second.id
    assert set(app.registry) == {"sweep"}
    assert job_type.call(limit=3).new_job().payload.value() == {"limit": 3}


def test_a_job_type_may_have_several_calendars(app: Holdfast) -> None:
    job_type = app.job(queue="media")(sweep)
    assert app.cron("0 3 * * *", name="nightly")(job_type) is job_type
    app.cron("0 12 * * *")(job_type)
    assert {entry.name: entry.make_job().queue for entry in app.crons} == {"nightly": "media", "sweep": "media"}


def test_two_calendars_with_one_name_are_refused(app: Holdfast) -> None:
    job_type = app.cron("0 3 * * *")(sweep)
    app.cron("0 3 * * *")(job_type)
    with pytest.raises(UsageError, match="two crons are called 'sweep'; give one of them another name="):
        app.cron("0 4 * * *")(job_type)


def test_a_function_that_needs_arguments_is_refused(app: Holdfast) -> None:
    def resize(path: str, width: int, height: int = 3) -> None: ...

    with pytest.raises(UsageError, match="nobody would give 'resize' its path, width when its time comes"):
        app.cron("* * * * *")(resize)
    assert app.crons == ()


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (["every day"], {}, "'every day' is not a cron expression"),
        (["* * * * *"], {"timezone": "Mars/Olympus"}, "no time zone is called 'Mars/Olympus'"),
        (["* * * * *"], {"queue": ""}, "queue: has 0 characters"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(app: Holdfast, arguments: Any, options: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        app.cron(*arguments, **options)(sweep)
    assert app.crons == ()


def test_the_options_of_a_job_type_are_its_own(app: Holdfast) -> None:
    with pytest.raises(UsageError, match=r"give queue to its @app\.job"):
        app.cron("* * * * *", queue="media")(app.job(sweep))
    misspelt: Any = {"que": "media"}
    with pytest.raises(TypeError, match="'que'"):
        app.cron("* * * * *", **misspelt)
