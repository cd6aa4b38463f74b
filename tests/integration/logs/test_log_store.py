"""What the LogStore port promises, on each place."""

import asyncio
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest

from holdfast.core.job import AttemptLog, LogKey
from holdfast.core.ports import LogStore
from holdfast.logs import objects

CREATED_AT = datetime(2026, 3, 31, 23, 30, tzinfo=UTC)


def key(job_id: UUID, *, attempt: int = 1, created_at: datetime = CREATED_AT) -> LogKey:
    return LogKey(job_id=job_id, created_at=created_at, attempt=attempt, attempt_id=uuid4())


def line(ts_ms: int, message: str = "") -> bytes:
    return b'{"ts_ms":%d,"message":"%s"}\n' % (ts_ms, message.encode())


async def test_what_was_written_is_read(store: LogStore) -> None:
    entry = key(uuid4())
    await store.write(entry, b"one\ntwo\n")
    assert await store.read(entry.job_id, created_at=CREATED_AT) == [
        AttemptLog(attempt=1, attempt_id=entry.attempt_id, data=b"one\ntwo\n")
    ]


async def test_a_job_that_said_nothing_has_no_logs(store: LogStore) -> None:
    assert await store.read(uuid4(), created_at=CREATED_AT) == []


async def test_a_later_write_stands_in_place_of_an_earlier_one(store: LogStore) -> None:
    entry = key(uuid4())
    await store.write(entry, b"one\n")
    await store.write(entry, b"one\ntwo\n")
    assert [log.data for log in await store.read(entry.job_id, created_at=CREATED_AT)] == [b"one\ntwo\n"]


async def test_an_empty_log_is_a_log(store: LogStore) -> None:
    entry = key(uuid4())
    await store.write(entry, b"")
    assert [log.data for log in await store.read(entry.job_id, created_at=CREATED_AT)] == [b""]


async def test_the_oldest_attempt_comes_first(store: LogStore) -> None:
    job_id = uuid4()
    for attempt in (10, 2, 1, 9):
        await store.write(key(job_id, attempt=attempt), line(1000 - attempt))
    assert [log.attempt for log in await store.read(job_id, created_at=CREATED_AT)] == [1, 2, 9, 10]


async def test_after_a_replay_when_numbers_come_again_the_time_of_the_first_line_decides(store: LogStore) -> None:
    job_id = uuid4()
    for ts_ms, attempt in ((30, 1), (20, 2), (40, 2), (10, 1)):
        await store.write(key(job_id, attempt=attempt), line(ts_ms))
    assert [log.data for log in await store.read(job_id, created_at=CREATED_AT)] == [
        line(ts) for ts in (10, 20, 30, 40)
    ]


async def test_jobs_are_kept_apart(store: LogStore) -> None:
    one, other = key(uuid4()), key(uuid4())
    await store.write(one, b"one")
    await store.write(other, b"other")
    assert [log.data for log in await store.read(other.job_id, created_at=CREATED_AT)] == [b"other"]


async def test_the_day_is_the_one_in_utc_wherever_the_caller_is(store: LogStore) -> None:
    entry = key(uuid4(), created_at=CREATED_AT.astimezone(timezone(timedelta(hours=5))))
    await store.write(entry, b"here")
    assert len(await store.read(entry.job_id, created_at=CREATED_AT)) == 1
    assert await store.remove_before(date(2026, 3, 31)) == 0
    assert await store.remove_before(date(2026, 4, 1)) == 1


async def test_days_past_are_removed_whole_and_later_ones_stay(store: LogStore) -> None:
    entries = [key(uuid4(), created_at=CREATED_AT + timedelta(days=day), attempt=n) for day in range(4) for n in (1, 2)]
    for entry in entries:
        await store.write(entry, b"words")
    assert await store.remove_before(date(2026, 4, 2)) == 4
    assert await store.remove_before(date(2026, 4, 2)) == 0
    left = [len(await store.read(entry.job_id, created_at=entry.created_at)) for entry in entries]
    assert left == [0, 0, 0, 0, 1, 1, 1, 1]


async def test_more_logs_than_one_call_may_remove_are_removed(store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "REMOVED_AT_ONCE", 20)
    await asyncio.gather(*(store.write(key(uuid4()), b"words") for _ in range(50)))
    assert await store.remove_before(date(2026, 4, 1)) == 50


async def test_several_may_remove_at_once(store: LogStore) -> None:
    entries = [key(uuid4()) for _ in range(40)]
    for entry in entries:
        await store.write(entry, b"words")
    await asyncio.gather(*(store.remove_before(date(2026, 4, 1)) for _ in range(4)))
    assert [await store.read(entry.job_id, created_at=CREATED_AT) for entry in entries] == [[]] * 40


async def test_it_serves_several_loops_in_several_threads(store: LogStore) -> None:
    """The worker's loop writes, its pulse sweeps."""
    entry = key(uuid4())
    problems: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(store.write(entry, b"from a thread"))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert problems == []
    assert [log.data for log in await store.read(entry.job_id, created_at=CREATED_AT)] == [b"from a thread"]


async def test_a_megabyte_is_read_as_it_was_written(store: LogStore) -> None:
    entry = key(uuid4())
    data = bytes(range(256)) * 4096
    await store.write(entry, data)
    assert [log.data for log in await store.read(entry.job_id, created_at=CREATED_AT)] == [data]
