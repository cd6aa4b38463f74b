"""What a claim's one row carries, and what it cannot: bytes of any kind and length, in files of any encoding."""

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.commands import HandedBack, Report, Settlement
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.claim import INLINE_PAYLOAD_BYTES
from holdfast.testing.factories import claim, new_claim, new_job, register, submit_jobs
from tests.integration.sqlite.conftest import OpenStore

PAYLOADS = [
    b"",
    b"\x00",
    bytes(range(256)),
    '{"text":"ü€😀"}'.encode(),
    b"\xff" * INLINE_PAYLOAD_BYTES,
    b"\x00" * (INLINE_PAYLOAD_BYTES + 1),
    b"after a large one",
    b"x" * 300_000,
]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
async def test_any_bytes_come_back_as_they_were_in_files_of_any_encoding(
    open_store: OpenStore, path: Path, encoding: str
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE of_the_caller (text TEXT)")
    store = await open_store()
    jobs = [new_job(payload=Payload(data, is_json=False), type=f"typ-{n}") for n, data in enumerate(PAYLOADS)]
    await submit_jobs(store, *jobs)
    worker = await register(store)
    asked = new_claim(worker, limit=100)
    claimed = await store.claim(asked)
    assert [(job.id, job.type, job.payload) for job in claimed] == [(job.id, job.type, job.payload) for job in jobs]
    again = await store.claim(replace(asked, is_repeat=True))
    assert again == claimed


async def test_a_repeat_tells_of_every_queue_what_the_claim_told(store: SQLiteStore) -> None:
    jobs = [
        new_job(queue=queue, priority=priority, timeouts=Timeouts(visibility=visibility))
        for queue in ("one", "two")
        for priority in reversed(Priority)
        for visibility in (1 / 3, 300.0, 0.1 + 0.2)
    ]
    await submit_jobs(store, *jobs)
    worker = await register(store)
    asked = new_claim(worker, queues=("two", "one"))
    claimed = await store.claim(asked)
    expected = sorted(jobs, key=lambda job: (job.queue == "one", tuple(Priority).index(job.priority)))
    assert [(job.id, job.queue, job.priority) for job in claimed] == [
        (job.id, job.queue, job.priority) for job in expected
    ]
    for job, submitted in zip(claimed, expected, strict=True):
        assert job.lease.expires_at - job.started_at == timedelta(seconds=submitted.timeouts.visibility)
    again = await store.claim(replace(asked, is_repeat=True))
    assert again == sorted(claimed, key=lambda job: job.lease.token)


async def test_a_checkpoint_comes_with_its_job_and_no_other(store: SQLiteStore) -> None:
    worker = await register(store)
    jobs = [new_job(), new_job(), new_job()]
    await submit_jobs(store, *jobs)
    first = {job.id: job for job in await claim(store, worker, limit=3)}
    saved = b"\x00\xffsaved"
    await store.report([Report(lease=first[jobs[1].id].lease, checkpoint=saved)])
    await store.settle([Settlement(lease=job.lease, outcome=HandedBack()) for job in first.values()])
    second = {job.id: job for job in await claim(store, worker, limit=3)}
    assert [second[job.id].checkpoint for job in jobs] == [None, saved, None]
