"""Submit: what is accepted, whole or not at all."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from holdfast.core import limits
from holdfast.core.batches import JobColumns
from holdfast.core.commands import Submit, Submitted
from holdfast.core.errors import InvalidInput
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import (
    after,
    claim_one,
    new_job,
    read_all,
    read_counts,
    read_one,
    read_state,
    read_states,
    register,
    submit_answer,
    submit_answers,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


async def test_a_plain_job_is_scheduled_at_once(harness: StoreHarness) -> None:
    job = await read_one(harness.store, await submit_one(harness.store))
    now = harness.clock.now()
    assert (job.state, job.attempt, job.replays, job.depth) == (State.SCHEDULED, 0, 0, 0)
    assert (job.created_at, job.updated_at, job.scheduled_at) == (now, now, now)
    assert (job.started_at, job.completed_at, job.lease, job.lease_version) == (None, None, None, 0)


async def test_the_store_keeps_the_id_that_it_was_given(harness: StoreHarness) -> None:
    """The caller makes it before the first try, so that a repeat names the same job."""
    job_id = uuid4()
    assert await submit_one(harness.store, id=job_id) == job_id
    assert (await read_one(harness.store, job_id)).id == job_id


async def test_a_job_without_options_has_the_defaults(harness: StoreHarness) -> None:
    job = await read_one(harness.store, await submit_one(harness.store))
    assert (job.queue, job.priority, job.retry.max_attempts) == ("default", Priority.NORMAL, 3)
    assert job.timeouts == Timeouts(execution=1800.0, visibility=300.0, lifetime=7 * 24 * 3600.0)
    assert (job.key, dict(job.tags), job.correlation_id, job.callback_url) == (None, {}, None, None)
    assert job.dependencies == ()


async def test_a_payload_comes_back_byte_for_byte(harness: StoreHarness) -> None:
    """JSON or binary: no store interprets it."""
    payloads = [
        Payload.of_json_text(b'{ "b" : 1.0,\n "a": [null, 1e2, "\\u0000 \\ud800"] }'),
        Payload.of_json_text(b"17"),
        Payload.of_bytes(bytes(range(256))),
        Payload.of_bytes(b""),
    ]
    jobs = [new_job(payload=payload) for payload in payloads]
    await submit_jobs(harness.store, *jobs)
    worker = await register(harness.store)
    for job in jobs:
        assert (await read_one(harness.store, job.id)).payload == job.payload
        assert (await claim_one(harness.store, worker)).payload == job.payload


async def test_a_payload_may_be_as_large_as_the_limit(harness: StoreHarness) -> None:
    """1 MB by default."""
    payload = Payload.of_bytes(b"x" * limits.DEFAULT_PAYLOAD_BYTES)
    job_id = await submit_one(harness.store, payload=payload)
    assert (await read_one(harness.store, job_id)).payload == payload


async def test_a_delayed_job_waits_for_its_time(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store, delay_seconds=60.0)
    job = await read_one(harness.store, job_id)
    assert (job.state, job.due_at) == (State.DELAYED, harness.clock.now() + timedelta(seconds=60))
    assert job.scheduled_at is None
    harness.clock.advance(59.999)
    await tick(harness.store)
    assert await read_state(harness.store, job_id) is State.DELAYED
    harness.clock.advance(0.001)
    await tick(harness.store)
    job = await read_one(harness.store, job_id)
    assert (job.state, job.due_at, job.scheduled_at) == (State.SCHEDULED, None, harness.clock.now())


async def test_a_time_that_has_passed_means_at_once(harness: StoreHarness) -> None:
    now = harness.clock.now()
    for run_at in (now, now - timedelta(days=1)):
        assert await read_state(harness.store, await submit_one(harness.store, run_at=run_at)) is State.SCHEDULED


async def test_a_repeated_submit_makes_one_job(harness: StoreHarness) -> None:
    """PORT-4."""
    jobs = (new_job(), new_job(key="k"), new_job(delay_seconds=5.0))
    first = await submit_jobs(harness.store, *jobs)
    before = await snapshot(harness.store)
    assert await submit_jobs(harness.store, *jobs) == first
    assert await snapshot(harness.store) == before
    assert len(await read_all(harness.store)) == 3


async def test_a_repeated_submit_does_not_disturb_a_job_that_went_on(harness: StoreHarness) -> None:
    """PORT-4."""
    job = new_job(key="k")
    await submit_jobs(harness.store, job)
    await claim_one(harness.store, await register(harness.store))
    before = await snapshot(harness.store)
    assert await submit_jobs(harness.store, job) == (Submitted(job.id),)
    assert await snapshot(harness.store) == before


async def test_the_same_submit_twice_in_one_call_makes_one_job(harness: StoreHarness) -> None:
    """PORT-4."""
    for job in (new_job(), new_job(key="k"), new_job(delay_seconds=5.0)):
        one = Submit(jobs=(job,))
        assert await harness.store.submit([one, one]) == [(Submitted(job.id),)] * 2
    assert len(await read_all(harness.store)) == 3


async def test_a_batch_is_refused_as_a_whole_and_every_fault_is_named(harness: StoreHarness) -> None:
    before = await snapshot(harness.store)
    unknown = uuid4()
    answer = await submit_answer(
        harness.store, new_job(), new_job(delay_seconds=-1.0), new_job(type="", queue=""), new_job(key="x" * 257)
    )
    assert isinstance(answer, InvalidInput)
    faults = {(fault.item, fault.field) for fault in answer.faults}
    assert faults == {(1, "delay_seconds"), (2, "type"), (2, "queue"), (3, "key")}
    answer = await submit_answer(
        harness.store, new_job(dependencies=after(unknown)), new_job(), new_job(dependencies=after(unknown))
    )
    assert isinstance(answer, InvalidInput)
    assert {(fault.item, fault.field) for fault in answer.faults} == {(0, "dependencies"), (2, "dependencies")}
    assert await snapshot(harness.store) == before


async def test_submits_that_share_a_call_are_independent(harness: StoreHarness) -> None:
    good, bad, lost, also_good = new_job(), new_job(type=""), new_job(dependencies=after(uuid4())), new_job(key="k")
    answers = await submit_answers(harness.store, *(Submit(jobs=(job,)) for job in (good, bad, lost, also_good)))
    assert answers[0] == (Submitted(good.id),)
    assert isinstance(answers[1], InvalidInput)
    assert isinstance(answers[2], InvalidInput)
    assert answers[3] == (Submitted(also_good.id),)
    assert {job.id for job in await read_all(harness.store)} == {good.id, also_good.id}
    assert await read_counts(harness.store) == {State.SCHEDULED: 2}


async def test_a_submit_may_wait_for_a_job_of_another_submit_of_its_call(harness: StoreHarness) -> None:
    """DEPEND-6: it is told when that job ends."""
    first, second = new_job(), new_job()
    waiting = new_job(queue="later", dependencies=after(first.id, second.id))
    answers = await submit_answers(harness.store, Submit(jobs=(first, second)), Submit(jobs=(waiting,)))
    assert answers[1] == (Submitted(waiting.id),)
    assert await read_state(harness.store, waiting.id) is State.PENDING
    await harness.store.cancel([first.id])
    await tick(harness.store)
    assert await read_state(harness.store, waiting.id) is State.CANCELLED


async def test_a_large_batch_is_accepted_in_its_order(harness: StoreHarness) -> None:
    jobs = [new_job() for _ in range(2000)]
    await submit_jobs(harness.store, *jobs)
    assert await read_counts(harness.store) == {State.SCHEDULED: 2000}
    listed = await read_all(harness.store)
    assert [job.id for job in reversed(listed)] == [job.id for job in jobs]


async def test_a_mixed_batch_keeps_its_order(harness: StoreHarness) -> None:
    """Whichever path inside the store each job takes."""
    jobs = [new_job(key=f"k{n}" if n % 2 else None, tags={"n": str(n)}) for n in range(10)]
    jobs.append(new_job(queue="other", dependencies=after(jobs[0].id)))
    await submit_jobs(harness.store, *jobs)
    assert [job.id for job in reversed(await read_all(harness.store))] == [job.id for job in jobs]
    assert await read_states(harness.store, [jobs[-1].id]) == [State.PENDING]


async def test_no_submit_and_no_answer(harness: StoreHarness) -> None:
    """PORT-1."""
    assert await harness.store.submit([]) == []


ALIKE_SETTINGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "delayed": {"delay_seconds": 60.0},
    "all settings": {
        "type": "other",
        "queue": "media",
        "priority": Priority.CRITICAL,
        "timeouts": Timeouts(execution=12.5, visibility=34.25, lifetime=5678.0),
        "retry": Retry(max_attempts=7, initial_delay=2.5),
        "correlation_id": "trace-1",
        "callback_url": "https://example.org/done",
    },
    "labelled": {"tags": {"region": "eu"}},
}


@pytest.mark.parametrize("settings", ALIKE_SETTINGS.values(), ids=ALIKE_SETTINGS)
async def test_jobs_given_as_columns_are_kept_as_jobs_are(harness: StoreHarness, settings: dict[str, Any]) -> None:
    """One job and the columns in which the others differ are written as so many jobs."""
    payloads = [Payload.of({"n": n}) for n in range(5)]
    singly = [new_job(payload=payload, **settings) for payload in payloads]
    alike = JobColumns(new_job(**settings), [uuid4() for _ in payloads], payloads)
    answers = await submit_answers(harness.store, Submit(jobs=singly), Submit(jobs=alike))
    assert answers[1] == tuple(Submitted(job_id) for job_id in alike.ids)
    # Alone, and again as after a lost answer.
    alone = JobColumns(new_job(**settings), [uuid4() for _ in payloads], payloads)
    for _ in range(2):
        (answer,) = await submit_answers(harness.store, Submit(jobs=alone))
        assert answer == tuple(Submitted(job_id) for job_id in alone.ids)
    kept = [await read_one(harness.store, job_id) for job_id in (*(job.id for job in singly), *alike.ids, *alone.ids)]
    looks = [replace(job, id=kept[0].id, seq=0, payload=payloads[0]) for job in kept]
    assert all(look == looks[0] for look in looks)
    assert [job.payload for job in kept] == payloads * 3
    assert [job.seq for job in kept] == sorted(job.seq for job in kept)
    assert sum((await read_counts(harness.store, kept[0].queue)).values()) == 15


async def test_a_fault_among_columns_names_its_job(harness: StoreHarness) -> None:
    large = Payload.of("x" * limits.DEFAULT_PAYLOAD_BYTES)
    alike = JobColumns(new_job(), [uuid4() for _ in range(3)], [Payload.of(1), large, Payload.of(3)])
    (answer,) = await submit_answers(harness.store, Submit(jobs=alike))
    assert isinstance(answer, InvalidInput)
    assert [(fault.item, fault.field) for fault in answer.faults] == [(1, "payload")]
    assert await read_all(harness.store) == []


async def test_an_id_that_stands_twice_in_a_column_is_refused(harness: StoreHarness) -> None:
    alike = JobColumns(new_job(), [uuid4()] * 2, [Payload.of(1), Payload.of(2)])
    (answer,) = await submit_answers(harness.store, Submit(jobs=alike))
    assert isinstance(answer, InvalidInput)
    assert [fault.field for fault in answer.faults] == ["id"]
    assert await read_all(harness.store) == []


async def test_json_and_bytes_may_stand_in_one_column(harness: StoreHarness) -> None:
    payloads = [Payload.of(1), Payload.of_bytes(b"1"), Payload.of(2)]
    columns = JobColumns(new_job(payload=payloads[0]), [uuid4() for _ in payloads], payloads)
    await submit_answers(harness.store, Submit(jobs=columns))
    assert [(await read_one(harness.store, job_id)).payload for job_id in columns.ids] == payloads


async def test_plain_jobs_that_differ_are_kept_in_the_order_given(harness: StoreHarness) -> None:
    jobs = [new_job(), new_job(type="other"), new_job(delay_seconds=60.0), new_job(payload=Payload.of_bytes(b"\0"))]
    for _ in range(2):  # and again, as after a lost answer
        (answer,) = await submit_answers(harness.store, Submit(jobs=jobs))
        assert answer == tuple(Submitted(job.id) for job in jobs)
    kept = [await read_one(harness.store, job.id) for job in jobs]
    assert [job.state for job in kept] == [State.SCHEDULED, State.SCHEDULED, State.DELAYED, State.SCHEDULED]
    assert [job.seq for job in kept] == sorted(job.seq for job in kept)
    assert {job.created_at for job in kept} == {harness.clock.now()}
    assert await read_counts(harness.store) == {State.SCHEDULED: 3, State.DELAYED: 1}
    worker = await register(harness.store)
    assert [await claim_one(harness.store, worker) for _ in range(3)]
