"""The coordinator over the real tables: each call downstream fails once (COORDINATOR-1 to COORDINATOR-5)."""

import asyncio
from typing import Any

import grpc
import pytest

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal
from holdfast.rpc.work import NO_BYTES_CHECKSUM
from tests.unit.designs.services.conftest import Events
from tests.unit.designs.services.parts import SPEC, Parts, new_id


async def running(parts: Parts, **fields: Any) -> str:
    """A job that w1 has."""
    await parts.heartbeat()
    job_id = await parts.submit(**fields)
    assert (await parts.fetch()).job_id == job_id
    return job_id


async def test_work_is_the_job_with_its_spec(parts: Parts) -> None:
    await parts.heartbeat()
    job_id = await parts.submit()
    work = await parts.fetch()
    assert (work.assigned, work.job_id, work.spec) == (True, job_id, SPEC)
    assert await parts.status(job_id) == "RUNNING"


async def test_without_work_the_answer_is_the_hint(parts: Parts) -> None:
    await parts.heartbeat()
    work = await parts.fetch()
    assert (work.assigned, work.retry_after_ms) == (False, 200)


async def test_a_fetch_that_waits_gets_the_job_that_comes(parts: Parts) -> None:
    await parts.heartbeat()
    fetch = asyncio.ensure_future(parts.fetch())
    while not parts.fifo._askers:
        await asyncio.sleep(0)
    job_id = await parts.submit()
    assert (await fetch).job_id == job_id


async def test_a_worker_that_is_not_known_gets_nothing_until_its_heartbeat(parts: Parts) -> None:
    job_id = await parts.submit()
    answer = await parts.fetch()
    assert (answer.assigned, answer.retry_after_ms) == (False, 200)
    await parts.heartbeat()
    assert (await parts.fetch()).job_id == job_id


async def test_a_fetch_with_under_200_ms_left_takes_nothing(parts: Parts) -> None:
    await parts.heartbeat()
    await parts.submit()
    assert not (await parts.fetch(seconds_left=0.19)).assigned
    assert len(parts.fifo) == 1


async def test_a_dequeued_job_that_is_not_queued_any_more_is_not_assigned(parts: Parts, events: Events) -> None:
    """COORDINATOR-1."""
    job_id = await parts.submit("k")
    await parts.heartbeat()
    hold = parts.jobs.hold("transition_job_status")
    fetch = asyncio.ensure_future(parts.fetch())
    await hold.reached.wait()
    await parts.submit("k")  # a duplicate: still QUEUED, and so enqueued again
    hold.released.set()
    assert (await fetch).job_id == job_id
    next_one = await parts.submit()
    asked = parts.jobs.calls.count("transition_job_status")
    assert (await parts.fetch()).job_id == next_one
    # The one that w1 has is passed over without a word.
    assert parts.jobs.calls.count("transition_job_status") == asked + 1
    assert events.job_ids("dispatch_race") == []


async def test_a_dequeued_job_that_was_canceled_is_not_assigned(parts: Parts, events: Events) -> None:
    """COORDINATOR-1."""
    job_id = await parts.submit()
    await parts.cancel(job_id)
    await parts.fifo.enqueue_job(internal.EnqueueJobRequest(job_id=job_id))
    await parts.heartbeat()
    assert not (await parts.fetch()).assigned
    assert events.job_ids("dispatch_race") == [job_id]
    assert not (await parts.fetch()).assigned
    assert list(parts.fifo._unsettled) == []


async def test_an_id_whose_move_could_not_be_asked_for_is_kept_and_tried_first(parts: Parts) -> None:
    """COORDINATOR-2."""
    first, second = await parts.submit(), await parts.submit()
    await parts.heartbeat()
    parts.jobs.fail("transition_job_status", times=2)
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            await parts.fetch()
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert len(parts.fifo) == 1
    assert [(await parts.fetch()).job_id for _ in range(2)] == [first, second]


async def test_kept_ids_stay_in_their_order(parts: Parts) -> None:
    """COORDINATOR-2."""
    ids = [await parts.submit() for _ in range(2)]
    await parts.heartbeat()
    holds = [parts.jobs.hold("transition_job_status", is_failing=True) for _ in ids]
    fetches = [asyncio.ensure_future(parts.fetch()) for _ in ids]
    for hold in reversed(holds):
        await hold.reached.wait()
        hold.released.set()
    await asyncio.gather(*fetches, return_exceptions=True)
    kept = list(parts.coordinator._held)
    parts.jobs.fail("transition_job_status")
    with pytest.raises(Refusal):
        await parts.fetch()
    assert [(await parts.fetch()).job_id for _ in ids] == kept
    assert sorted(kept) == sorted(ids)


async def test_a_move_that_was_applied_without_our_hearing_of_it_is_ours(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    parts.jobs.fail("transition_job_status", "after")
    with pytest.raises(Refusal):
        await parts.fetch()
    assert await parts.status(job_id) == "RUNNING"
    assert (await parts.fetch()).job_id == job_id


async def test_a_kept_id_that_was_canceled_meanwhile_is_not_assigned(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    parts.jobs.fail("transition_job_status")
    with pytest.raises(Refusal):
        await parts.fetch()
    await parts.cancel(job_id)
    assert not (await parts.fetch()).assigned
    assert await parts.status(job_id) == "CANCELED"


async def test_a_queue_that_is_away_is_unavailable(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    parts.queue.fail("dequeue_job")
    with pytest.raises(Refusal) as caught:
        await parts.fetch()
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert (await parts.fetch()).job_id == job_id


async def test_an_id_that_was_popped_for_a_caller_that_has_gone_is_kept_and_stays_queued(parts: Parts) -> None:
    """COORDINATOR-2."""
    await parts.heartbeat()
    hold = parts.queue.hold("dequeue_job")
    gone = asyncio.ensure_future(parts.fetch())
    await hold.reached.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    first, second = await parts.submit(), await parts.submit()
    hold.released.set()
    while len(parts.fifo) == 2:
        await asyncio.sleep(0)
    assert await parts.status(first) == "QUEUED"
    assert [(await parts.fetch()).job_id for _ in range(2)] == [first, second]


async def test_a_job_that_was_started_for_a_caller_that_has_gone_goes_to_the_next(parts: Parts) -> None:
    """COORDINATOR-3."""
    await parts.heartbeat()
    job_id = await parts.submit()
    hold = parts.jobs.hold("get_job_record")
    gone = asyncio.ensure_future(parts.fetch())
    await hold.reached.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    hold.released.set()
    await asyncio.gather(*parts.coordinator._searches)
    assert await parts.status(job_id) == "RUNNING"
    assert (await parts.fetch()).job_id == job_id


async def test_a_started_job_whose_record_could_not_be_read_goes_to_the_next(parts: Parts) -> None:
    """COORDINATOR-3."""
    await parts.heartbeat()
    job_id = await parts.submit()
    parts.jobs.fail("get_job_record")
    with pytest.raises(Refusal):
        await parts.fetch()
    assert (await parts.fetch()).job_id == job_id


async def test_a_dead_workers_job_stays_running_and_goes_to_another_three_times_and_is_then_failed(
    parts: Parts, events: Events
) -> None:
    """COORDINATOR-3."""
    job_id = await running(parts)
    for number in range(2, 2 + limits.MAX_REDELIVERIES):
        await parts.lose_worker(f"w{number - 1}")
        assert await parts.status(job_id) == "RUNNING"
        await parts.heartbeat(f"w{number}")
        assert (await parts.fetch(f"w{number}")).job_id == job_id
    await parts.lose_worker("w4")
    record, result = await parts.read(job_id), await parts.result(job_id)
    assert (record.status, record.failure_reason) == (public.FAILED, "WORKER_LOST")
    assert result.terminal_status == public.FAILED
    assert "WORKER_LOST" in result.output_summary
    assert len(events.job_ids("worker_lost")) == 4


async def test_a_lost_job_that_cannot_be_ended_yet_is_ended_later(parts: Parts) -> None:
    """COORDINATOR-3."""
    job_id = await running(parts)
    for _ in range(limits.MAX_REDELIVERIES):
        await parts.lose_worker()
        await parts.heartbeat()
        assert (await parts.fetch()).job_id == job_id
    parts.results.fail("store_result")
    parts.clock.advance(4)
    with pytest.raises(Refusal):
        await parts.coordinator.look_after_workers()
    assert await parts.status(job_id) == "RUNNING"
    parts.jobs.fail("transition_job_status")
    with pytest.raises(Refusal):
        await parts.coordinator.look_after_workers()
    await parts.coordinator.look_after_workers()
    assert (await parts.read(job_id)).failure_reason == "WORKER_LOST"


async def test_a_job_that_was_lost_too_often_and_has_no_record_any_more_is_forgotten(
    parts: Parts, events: Events
) -> None:
    """COORDINATOR-3."""
    job_id = await running(parts)
    for _ in range(limits.MAX_REDELIVERIES):
        await parts.lose_worker()
        await parts.heartbeat()
        assert (await parts.fetch()).job_id == job_id
    parts.restart_job_table()
    await parts.lose_worker()
    assert not parts.roster.knows(job_id)
    assert events.job_ids("consistency_anomaly") == [job_id]


async def test_a_worker_that_was_restarted_under_its_name_gets_its_job_again(parts: Parts, events: Events) -> None:
    """COORDINATOR-3."""
    job_id = await running(parts)
    for _ in range(3):  # it never falls silent, and says that it has nothing
        parts.clock.advance(0.9)
        await parts.heartbeat(holding=[])
    assert events.job_ids("job_lost") == []  # it may have ended
    assert (await parts.fetch()).job_id == job_id
    assert events.job_ids("job_lost") == [job_id]


async def test_a_pause_of_the_coordinator_loses_no_worker(parts: Parts, events: Events) -> None:
    """COORDINATOR-3."""
    await running(parts)
    parts.coordinator.start()
    await asyncio.sleep(0)
    parts.clock.advance(60)
    async with asyncio.timeout(10):
        while not parts.roster.is_alive("w1"):
            await asyncio.sleep(0.01)
    await parts.coordinator.look_after_workers()
    await parts.coordinator.stop()
    assert events.job_ids("worker_lost") == []


async def test_the_first_report_of_a_lost_and_a_second_worker_wins(parts: Parts, events: Events) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    await parts.lose_worker()
    await parts.heartbeat("w2")
    assert (await parts.fetch("w2")).job_id == job_id
    assert await parts.report(job_id, "w1", output_summary="of the first")
    assert not await parts.report(job_id, "w2", outcome=internal.FAILED, failure_reason="of the second")
    assert await parts.status(job_id) == "DONE"
    assert (await parts.result(job_id)).output_summary == "of the first"
    assert events.job_ids("terminal_race") == [job_id]


async def test_a_lost_job_that_was_reported_after_all_is_not_handed_out(parts: Parts) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    await parts.lose_worker()
    assert await parts.report(job_id)
    await parts.heartbeat()
    assert not (await parts.fetch()).assigned
    assert await parts.status(job_id) == "DONE"


async def test_a_lost_job_that_is_reported_while_it_is_handed_out_is_not(parts: Parts) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    await parts.lose_worker()
    await parts.heartbeat("w2")
    hold = parts.jobs.hold("get_job_record")
    fetch = asyncio.ensure_future(parts.fetch("w2"))
    await hold.reached.wait()
    assert await parts.report(job_id, "w1")
    hold.released.set()
    assert not (await fetch).assigned


@pytest.mark.parametrize(("door", "method"), [("results", "store_result"), ("jobs", "transition_job_status")])
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_report_that_failed_half_way_can_be_repeated(parts: Parts, door: str, method: str, fault: str) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    getattr(parts, door).fail(method, fault)
    with pytest.raises(Refusal) as caught:
        await parts.report(job_id)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    for _ in range(2):
        assert await parts.report(job_id)
    assert await parts.status(job_id) == "DONE"
    assert (await parts.result(job_id)).output_bytes == b"abc"


async def test_the_envelope_is_there_before_the_status_is_terminal(parts: Parts) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    hold = parts.jobs.hold("transition_job_status")
    report = asyncio.ensure_future(parts.report(job_id))
    await hold.reached.wait()
    assert await parts.status(job_id) == "RUNNING"
    assert (await parts.results.get_result(internal.GetResultRequest(job_id=job_id))).found
    hold.released.set()
    assert await report


async def test_a_cancel_between_envelope_and_status_does_not_part_them(parts: Parts) -> None:
    """COORDINATOR-4."""
    job_id = await running(parts)
    parts.jobs.fail("transition_job_status")
    with pytest.raises(Refusal):
        await parts.report(job_id)
    await parts.cancel(job_id)
    assert not await parts.report(job_id)  # a conflict: CANCELED is wanted, DONE is stored
    assert await parts.status(job_id) == "DONE"
    assert (await parts.result(job_id)).terminal_status == public.DONE


async def test_a_cancel_before_the_report_wins_over_it(parts: Parts) -> None:
    """COORDINATOR-5."""
    job_id = await running(parts)
    await parts.cancel(job_id, "changed my mind")
    await parts.cancel(job_id)
    assert (await parts.read(job_id)).failure_reason == ""
    assert await parts.report(job_id, runtime_ms=7)
    result = await parts.result(job_id)
    assert (result.terminal_status, result.output_bytes, result.runtime_ms) == (public.CANCELED, b"", 7)
    assert result.checksum == NO_BYTES_CHECKSUM
    assert result.output_summary == "canceled: changed my mind"


async def test_a_lost_job_whose_cancel_was_requested_is_canceled_and_not_run_again(parts: Parts) -> None:
    """COORDINATOR-5."""
    job_id, next_one = await running(parts), await parts.submit()
    await parts.cancel(job_id, "changed my mind")
    await parts.lose_worker()
    await parts.heartbeat("w2")
    assert (await parts.fetch("w2")).job_id == next_one
    assert await parts.status(job_id) == "CANCELED"
    assert (await parts.result(job_id)).output_summary == "canceled: changed my mind"


async def test_a_cancel_that_cannot_be_written_yet_is_written_later(parts: Parts) -> None:
    """COORDINATOR-5."""
    job_id = await running(parts)
    await parts.cancel(job_id)
    await parts.lose_worker()
    await parts.heartbeat("w2")
    parts.results.fail("store_result")
    with pytest.raises(Refusal):
        await parts.fetch("w2")
    assert await parts.status(job_id) == "RUNNING"
    assert not (await parts.fetch("w2")).assigned
    assert await parts.status(job_id) == "CANCELED"


async def test_too_large_an_output_is_a_failure_without_its_bytes(parts: Parts) -> None:
    job_id = await running(parts)
    await parts.report(job_id, output_bytes=bytes(limits.MAX_OUTPUT_BYTES + 1), checksum="0" * 64)
    record, result = await parts.read(job_id), await parts.result(job_id)
    assert (record.status, record.failure_reason) == (public.FAILED, "OUTPUT_TOO_LARGE")
    assert (result.output_bytes, result.checksum) == (b"", NO_BYTES_CHECKSUM)
    assert "OUTPUT_TOO_LARGE" in result.output_summary


async def test_a_worker_may_report_that_it_canceled(parts: Parts) -> None:
    job_id = await running(parts)
    assert await parts.report(job_id, outcome=internal.CANCELED, output_bytes=b"")
    assert await parts.status(job_id) == "CANCELED"


async def test_a_coordinator_that_knows_nothing_takes_a_report(parts: Parts) -> None:
    """It was restarted while the worker ran the job."""
    job_id = await running(parts)
    parts.restart_coordinator()
    assert await parts.report(job_id)
    assert await parts.status(job_id) == "DONE"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"job_id": "abc"}, "INVALID_ARGUMENT"),
        ({"job_id": new_id()}, "NOT_FOUND"),
        ({"worker": ""}, "INVALID_ARGUMENT"),
        ({"outcome": internal.JOB_OUTCOME_UNSPECIFIED}, "INVALID_ARGUMENT"),
        ({"outcome": 9}, "INVALID_ARGUMENT"),
        ({"checksum": "0" * 64}, "INVALID_ARGUMENT"),
        ({"failure_reason": "x" * 2000}, "INVALID_ARGUMENT"),
    ],
    ids=["malformed", "unknown", "nameless", "no-outcome", "other-outcome", "checksum", "long"],
)
async def test_a_report_that_is_none_changes_nothing(parts: Parts, fields: dict[str, Any], code: str) -> None:
    job_id = await running(parts)
    with pytest.raises(Refusal) as caught:
        await parts.report(**{"job_id": job_id, **fields})
    assert caught.value.code.name == code
    assert await parts.status(job_id) == "RUNNING"


async def test_a_report_of_a_job_that_nobody_was_given_is_refused(parts: Parts) -> None:
    job_id = await parts.submit()
    with pytest.raises(Refusal) as caught:
        await parts.report(job_id)
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert await parts.status(job_id) == "QUEUED"


@pytest.mark.parametrize(
    ("method", "fault", "status"),
    [
        ("transition_job_status", "before", "QUEUED"),
        ("transition_job_status", "after", "RUNNING"),
        ("get_job_record", "before", "RUNNING"),
    ],
)
async def test_what_a_killed_coordinator_had_in_its_hands_its_successor_is_given(
    parts: Parts, method: str, fault: Any, status: str
) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    parts.jobs.fail(method, fault)
    with pytest.raises(Refusal):
        await parts.fetch()
    assert await parts.status(job_id) == status
    parts.restart_coordinator()
    parts.clock.advance(5)
    await parts.heartbeat(holding=[])
    assert (await parts.fetch()).job_id == job_id


async def test_a_dequeued_id_whose_answer_was_lost_comes_back(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    parts.queue.fail("dequeue_job", "after")
    with pytest.raises(Refusal):
        await parts.fetch()
    for _ in range(5):
        parts.clock.advance(1)
        await parts.heartbeat(holding=[])
    assert (await parts.fetch()).job_id == job_id


async def test_a_job_that_a_worker_has_is_not_given_to_another_by_a_successor(parts: Parts) -> None:
    """COORDINATOR-2: killed between the answer to FetchWork and its next word to the queue."""
    job_id = await running(parts)
    parts.restart_coordinator()
    parts.clock.advance(5)
    await parts.heartbeat("w1", holding=[job_id])
    await parts.heartbeat("w2", holding=[])
    assert not (await parts.fetch("w2")).assigned
    assert await parts.report(job_id)


async def test_what_has_ended_is_settled_with_the_next_question(parts: Parts) -> None:
    """COORDINATOR-2."""
    first = await running(parts)
    second = await parts.submit()
    assert (await parts.fetch()).job_id == second
    assert list(parts.fifo._unsettled) == [first, second]
    await parts.report(first)
    parts.queue.fail("dequeue_job")
    with pytest.raises(Refusal):
        await parts.fetch()
    third = await parts.submit()
    assert (await parts.fetch()).job_id == third  # what could not be said was said again
    assert list(parts.fifo._unsettled) == [second, third]


async def test_a_lost_job_that_nobody_has_taken_yet_outlives_its_coordinator(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await running(parts)
    assert not (await parts.fetch()).assigned  # the queue has been told all that there is to tell
    await parts.lose_worker()
    parts.restart_coordinator()
    parts.clock.advance(5)
    await parts.heartbeat("w2", holding=[])
    assert (await parts.fetch("w2")).job_id == job_id
    assert await parts.report(job_id, "w2")


async def test_a_job_that_runs_for_long_is_not_given_to_another(parts: Parts, events: Events) -> None:
    """COORDINATOR-2."""
    job_id = await running(parts)
    asked = len(parts.jobs.calls)
    for _ in range(3):
        parts.clock.advance(2.5)
        await parts.heartbeat(holding=[job_id])
    assert not (await parts.fetch()).assigned
    assert len(parts.jobs.calls) == asked
    assert events.job_ids("dispatch_race") == []
    assert await parts.report(job_id)
    assert not (await parts.fetch()).assigned
    assert list(parts.fifo._unsettled) == []


async def test_an_id_that_the_queue_gives_back_while_it_is_kept_is_not_taken_twice(parts: Parts) -> None:
    """COORDINATOR-2."""
    job_id = await parts.submit()
    await parts.heartbeat()
    hold = parts.jobs.hold("transition_job_status")
    first = asyncio.ensure_future(parts.fetch())
    await hold.reached.wait()
    parts.clock.advance(5)
    await parts.heartbeat()
    assert not (await parts.fetch()).assigned
    hold.released.set()
    assert (await first).job_id == job_id


async def test_a_restarted_coordinator_learns_from_heartbeats_whose_job_is_lost_with_a_worker(parts: Parts) -> None:
    """COORDINATOR-3."""
    job_id = await running(parts)
    parts.restart_coordinator()
    await parts.heartbeat(holding=[job_id])
    await parts.lose_worker()
    await parts.heartbeat("w2", holding=[])
    assert (await parts.fetch("w2")).job_id == job_id
