"""A job's fields are described once."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import pytest

from holdfast.core.checks import require_valid_submit
from holdfast.core.commands import EQUAL, NewJob, Submit
from holdfast.core.errors import InvalidInput
from holdfast.core.job import AS_GIVEN, COLUMNS, DEFAULT_OPTIONS, FIELDS, LABELS, Job, Options, as_given, given_from
from holdfast.engine.documents import job_data
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.factories import field_values, new_job, read_one, submit_jobs
from holdfast.worker.messages import NewJobData

NOW: Final = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
VALUES: Final = field_values(NOW)


def full_job() -> NewJob:
    return NewJob(id=uuid4(), **VALUES)


def row_of(job: NewJob) -> dict[str, Any]:
    """A record, as a store has it."""
    row = {}
    for column, path in COLUMNS.items():
        value: Any = job
        for name in path.split("."):
            value = getattr(value, name)
        row[column] = value
    return row


def test_every_field_is_given_a_value_here() -> None:
    assert VALUES.keys() == FIELDS.keys() - {"id", "dependencies"}
    default = new_job()
    assert not [name for name, value in VALUES.items() if value == getattr(default, name)]


def test_what_a_record_has_is_what_was_given() -> None:
    for job in (full_job(), new_job()):
        assert given_from(row_of(job)) == as_given(job)


@pytest.mark.parametrize("name", VALUES)
def test_a_field_by_itself_reaches_the_record(name: str) -> None:
    """And nothing else does: no field is another one's."""
    usual = new_job()
    job = replace(usual, **{name: VALUES[name]})
    assert as_given(job) == {**as_given(usual), **({name: VALUES[name]} if name in AS_GIVEN else {})}
    assert given_from(row_of(job)) == as_given(job)


@pytest.mark.parametrize("name", VALUES)
def test_only_what_asks_for_more_than_a_record_is_not_plain(name: str) -> None:
    is_plain = new_job(**{name: VALUES[name]}).is_plain
    assert is_plain is (name not in ("run_at", "key", "tags"))


def test_every_field_is_in_a_column_or_among_the_options_or_known_to_be_neither() -> None:
    neither = {name for name, one in FIELDS.items() if not one.columns and not one.options}
    assert neither == {"delay_seconds", "run_at", "key_window_seconds", "dependencies"}
    options = {name for one in FIELDS.values() for name in one.options}
    assert options == {one.name for one in fields(Options)}


def test_a_job_that_is_read_has_all_of_them() -> None:
    names = {one.name for one in fields(Job)}
    assert {*AS_GIVEN, "priority", "run_at", "dependencies"} <= names
    assert FIELDS.keys() - names == {"delay_seconds", "key_window_seconds"}


def test_options_at_their_defaults_are_stored_as_nothing() -> None:
    assert new_job().encoded_options is None
    assert Options.decode(None, max_attempts=3, may_be_newer=False) is DEFAULT_OPTIONS
    job = full_job()
    assert Options.decode(job.encoded_options, max_attempts=job.retry.max_attempts, may_be_newer=False) == job.options


def test_an_option_of_a_newer_program_is_passed_over() -> None:
    newer = '{"colour":"blue","key":"k"}'
    assert Options.decode(newer, max_attempts=3, may_be_newer=True) == Options(key="k")
    with pytest.raises(TypeError, match="colour"):
        Options.decode(newer, max_attempts=3, may_be_newer=False)


def test_a_job_comes_out_of_a_child_process_as_it_went_in() -> None:
    for job in (full_job(), new_job()):
        assert NewJobData.of(job).new_job() == job


@pytest.mark.parametrize("name", LABELS)
def test_a_label_is_bounded_and_shown(name: str) -> None:
    limit = FIELDS[name].max_characters
    assert limit is not None
    for wrong in ("x" * (limit + 1), "", 7):
        with pytest.raises(InvalidInput) as refused:
            require_valid_submit(Submit(jobs=(new_job(**{name: wrong}),)))
        assert {fault.field for fault in refused.value.faults} == {name}


async def test_a_document_says_all_that_can_be_read() -> None:
    store = MemoryStore(clock=ManualClock(NOW))
    job = replace(full_job(), delay_seconds=0.0)
    await submit_jobs(store, job)
    data = job_data(await read_one(store, job.id))
    written = {name: data[name] for name in AS_GIVEN if name not in ("payload", "retry", "timeouts")}
    assert written == {name: getattr(job, name) for name in written}
    assert data["payload"] == job.payload.value()
    assert data["max_attempts"] == job.retry.max_attempts
    assert data["timeouts"] == {"execution": 12.5, "visibility": 34.25, "lifetime": 5678.0}


def test_a_filter_asks_for_fields_of_the_job() -> None:
    assert set(EQUAL) <= set(AS_GIVEN)
