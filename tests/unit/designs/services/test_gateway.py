"""The gateway over the real tables: GATEWAY-1 to GATEWAY-4, each with the call downstream that fails."""

import asyncio

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal
from holdfast.rpc.work import NO_BYTES_CHECKSUM
from tests.unit.designs.services.conftest import Events
from tests.unit.designs.services.parts import SPEC, Parts, new_id

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def listed(parts: Parts) -> list[str]:
    answer = await parts.gateway.list_jobs(public.ListJobsRequest())
    return [job.job_id for job in answer.jobs]


async def test_a_submitted_job_is_queued_and_in_the_queue(parts: Parts) -> None:
    answer = await parts.gateway.submit_job(public.SubmitJobRequest(spec=SPEC))
    assert answer.initial_status == public.QUEUED
    assert answer.accepted_at_ms == parts.clock.now_ms()
    assert await parts.status(answer.job_id) == "QUEUED"
    assert len(parts.fifo) == 1


async def test_a_job_that_cannot_be_enqueued_is_taken_back_with_its_key(parts: Parts, events: Events) -> None:
    """GATEWAY-1."""
    parts.queue.fail("enqueue_job")
    with pytest.raises(Refusal) as caught:
        await parts.submit("k")
    assert caught.value.code is UNAVAILABLE
    assert await listed(parts) == []
    assert events.job_ids("consistency_anomaly") == []
    # The key is free: even another payload may have it.
    job_id = await parts.submit("k", job_type="another")
    assert await listed(parts) == [job_id]


async def test_a_compensation_that_fails_is_an_anomaly_with_the_job_id(parts: Parts, events: Events) -> None:
    """GATEWAY-1."""
    parts.queue.fail("enqueue_job")
    parts.jobs.fail("delete_job_if_status")
    with pytest.raises(Refusal) as caught:
        await parts.submit("k")
    assert caught.value.code is UNAVAILABLE
    [job_id] = await listed(parts)
    assert events.job_ids("consistency_anomaly") == [job_id]
    # Whoever repeats the submit gets this job, in the queue at last.
    assert await parts.submit("k") == job_id
    assert len(parts.fifo) == 1


async def test_a_duplicate_that_is_still_queued_is_enqueued_again(parts: Parts) -> None:
    """GATEWAY-1."""
    job_id = await parts.submit("k")
    await parts.fifo.remove_job_if_present(internal.RemoveJobIfPresentRequest(job_id=job_id))
    assert await parts.submit("k") == job_id
    assert len(parts.fifo) == 1


async def test_a_duplicate_that_cannot_be_enqueued_is_never_deleted(parts: Parts) -> None:
    """GATEWAY-1."""
    job_id = await parts.submit("k")
    parts.queue.fail("enqueue_job")
    with pytest.raises(Refusal) as caught:
        await parts.submit("k")
    assert caught.value.code is UNAVAILABLE
    assert await parts.status(job_id) == "QUEUED"
    assert "delete_job_if_status" not in parts.jobs.calls


async def test_a_duplicate_of_a_job_that_runs_is_not_enqueued(parts: Parts) -> None:
    """GATEWAY-1."""
    job_id = await parts.submit("k")
    await parts.heartbeat()
    await parts.fetch()
    assert await parts.submit("k") == job_id
    assert len(parts.fifo) == 0


async def test_a_duplicate_that_was_accepted_keeps_its_job_when_the_first_call_fails(parts: Parts) -> None:
    """GATEWAY-1."""
    hold = parts.queue.hold("enqueue_job", is_failing=True)
    first = asyncio.ensure_future(parts.submit("k"))
    await hold.reached.wait()
    job_id = await parts.submit("k")
    hold.released.set()
    with pytest.raises(Refusal) as caught:
        await first
    assert caught.value.code is UNAVAILABLE
    await parts.heartbeat()
    assert (await parts.fetch()).job_id == job_id


async def test_a_job_whose_enqueue_was_only_not_answered_and_that_runs_is_accepted(parts: Parts) -> None:
    """GATEWAY-1."""
    await parts.heartbeat()
    hold = parts.jobs.hold("delete_job_if_status")
    parts.queue.fail("enqueue_job", "after")
    submit = asyncio.ensure_future(parts.submit())
    await hold.reached.wait()
    assert (await parts.fetch()).assigned
    hold.released.set()
    assert await parts.status(await submit) == "RUNNING"


async def test_an_id_whose_job_was_taken_back_is_not_assigned(parts: Parts, events: Events) -> None:
    """GATEWAY-1."""
    await parts.heartbeat()
    parts.queue.fail("enqueue_job", "after")
    with pytest.raises(Refusal):
        await parts.submit()
    assert len(parts.fifo) == 1
    job_id = await parts.submit()
    assert (await parts.fetch()).job_id == job_id
    assert len(events.job_ids("consistency_anomaly")) == 1


async def test_a_missing_spec_is_refused_before_anything_is_asked(parts: Parts) -> None:
    with pytest.raises(Refusal, match="spec is missing") as caught:
        await parts.gateway.submit_job(public.SubmitJobRequest())
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert parts.jobs.calls == []


async def test_a_queued_job_is_canceled_with_its_envelope(parts: Parts) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    answer = await parts.cancel(job_id, "not needed")
    assert (answer.accepted, answer.current_status, answer.already_terminal) == (True, public.CANCELED, False)
    assert len(parts.fifo) == 0
    assert (await parts.read(job_id)).cancel_requested
    result = await parts.result(job_id)
    assert (result.result_ready, result.terminal_status) == (True, public.CANCELED)
    assert "not needed" in result.output_summary
    assert result.checksum == NO_BYTES_CHECKSUM
    # Once terminal, every cancel is answered alike.
    for _ in range(2):
        again = await parts.cancel(job_id)
        assert (again.accepted, again.current_status, again.already_terminal) == (True, public.CANCELED, True)


async def test_the_envelope_is_there_before_the_status_is_terminal(parts: Parts) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    hold = parts.jobs.hold("transition_job_status")
    cancel = asyncio.ensure_future(parts.cancel(job_id))
    await hold.reached.wait()
    assert await parts.status(job_id) == "QUEUED"
    assert (await parts.results.get_result(internal.GetResultRequest(job_id=job_id))).found
    hold.released.set()
    assert (await cancel).current_status == public.CANCELED


@pytest.mark.parametrize(
    ("door", "method"),
    [("queue", "remove_job_if_present"), ("results", "store_result"), ("jobs", "transition_job_status")],
)
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_queued_cancel_that_cannot_be_finished_leaves_a_queued_job(
    parts: Parts, door: str, method: str, fault: str
) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    getattr(parts, door).fail(method, fault)
    with pytest.raises(Refusal) as caught:
        await parts.cancel(job_id, "why")
    assert caught.value.code is UNAVAILABLE
    assert len(parts.fifo) == 1
    answer = await parts.cancel(job_id, "why")
    assert answer.current_status == public.CANCELED
    assert (await parts.result(job_id)).terminal_status == public.CANCELED


async def test_a_cancel_that_was_not_finished_wins_even_if_nobody_repeats_it(parts: Parts) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    parts.jobs.fail("transition_job_status")
    with pytest.raises(Refusal):
        await parts.cancel(job_id)
    # Enqueued again, it is run; its end finds the CANCELED envelope and agrees with it.
    await parts.heartbeat()
    assert (await parts.fetch()).job_id == job_id
    assert not await parts.report(job_id)
    assert await parts.status(job_id) == "CANCELED"
    assert (await parts.result(job_id)).terminal_status == public.CANCELED


@pytest.mark.parametrize(
    ("door", "method", "status"),
    [("results", "store_result", "DONE"), ("jobs", "transition_job_status", "CANCELED")],
)
async def test_a_gateway_that_is_killed_in_a_queued_cancel_leaves_a_job_that_ends(
    parts: Parts, door: str, method: str, status: str
) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    hold = getattr(parts, door).hold(method)
    cancel = asyncio.ensure_future(parts.cancel(job_id))
    await hold.reached.wait()
    cancel.cancel()
    await asyncio.gather(cancel, return_exceptions=True)
    parts.clock.advance(5)
    await parts.heartbeat()
    assert (await parts.fetch()).job_id == job_id
    await parts.report(job_id)
    assert await parts.status(job_id) == status
    assert (await parts.result(job_id)).terminal_status == public.JobStatus.Value(status)


async def test_a_job_that_could_not_be_enqueued_again_is_an_anomaly(parts: Parts, events: Events) -> None:
    """GATEWAY-2."""
    job_id = await parts.submit()
    parts.results.fail("store_result")
    parts.queue.fail("enqueue_job")
    with pytest.raises(Refusal):
        await parts.cancel(job_id)
    assert events.job_ids("consistency_anomaly") == [job_id]
    # The next cancel heals it: asked for, enqueued, and ended by the coordinator that takes it.
    answer = await parts.cancel(job_id)
    assert (answer.accepted, answer.current_status) == (True, public.QUEUED)
    await parts.heartbeat()
    assert not (await parts.fetch(seconds_left=None)).assigned
    assert await parts.status(job_id) == "CANCELED"


async def test_a_queued_cancel_that_loses_the_race_asks_for_a_running_cancel(parts: Parts) -> None:
    """GATEWAY-3: the coordinator has dequeued the ID, and has not moved the status yet."""
    job_id = await parts.submit()
    await parts.heartbeat()
    hold = parts.jobs.hold("transition_job_status")
    fetch = asyncio.ensure_future(parts.fetch())
    await hold.reached.wait()
    answer = await parts.cancel(job_id)
    assert (answer.accepted, answer.current_status, answer.already_terminal) == (True, public.QUEUED, False)
    assert (await parts.read(job_id)).cancel_requested
    hold.released.set()
    assert not (await fetch).assigned
    assert await parts.status(job_id) == "CANCELED"
    assert (await parts.result(job_id)).terminal_status == public.CANCELED


@pytest.mark.parametrize(("age_seconds", "is_anomaly"), [(5, False), (5.1, True)])
async def test_an_old_job_that_is_queued_and_in_no_queue_is_an_anomaly(
    parts: Parts, events: Events, age_seconds: float, is_anomaly: bool
) -> None:
    """GATEWAY-3."""
    job_id = await parts.submit()
    await parts.fifo.remove_job_if_present(internal.RemoveJobIfPresentRequest(job_id=job_id))
    parts.clock.advance(age_seconds)
    assert (await parts.cancel(job_id)).current_status == public.QUEUED
    assert events.job_ids("consistency_anomaly") == ([job_id] if is_anomaly else [])
    assert len(parts.fifo) == 1


async def test_a_running_job_is_asked_to_be_canceled_and_its_end_may_come_first(parts: Parts) -> None:
    """GATEWAY-3."""
    job_id = await parts.submit()
    await parts.heartbeat()
    await parts.fetch()
    for _ in range(2):
        answer = await parts.cancel(job_id)
        assert (answer.accepted, answer.current_status, answer.already_terminal) == (True, public.RUNNING, False)
    assert await parts.report(job_id)
    assert await parts.status(job_id) == "CANCELED"


async def test_a_job_that_was_taken_while_its_duplicate_was_removed_ends_as_its_envelope_says(parts: Parts) -> None:
    """GATEWAY-3."""
    # In the coordinator's hands, and by a duplicate submit in the queue too: the removal succeeds, the move does not.
    job_id = await parts.submit("k")
    await parts.heartbeat()
    taking = parts.jobs.hold("transition_job_status")
    fetch = asyncio.ensure_future(parts.fetch())
    await taking.reached.wait()
    await parts.submit("k")
    storing = parts.results.hold("store_result")
    cancel = asyncio.ensure_future(parts.cancel(job_id))
    await storing.reached.wait()
    taking.released.set()
    assert (await fetch).job_id == job_id
    storing.released.set()
    assert (await cancel).current_status == public.RUNNING
    await parts.report(job_id)
    assert await parts.status(job_id) == "CANCELED"
    assert (await parts.result(job_id)).terminal_status == public.CANCELED


async def test_a_terminal_status_without_its_envelope_is_unavailable_and_an_anomaly(
    parts: Parts, events: Events
) -> None:
    """GATEWAY-4."""
    job_id = await parts.submit()
    for old, new in ((public.QUEUED, public.RUNNING), (public.RUNNING, public.DONE)):
        await parts.job_table.transition_job_status(
            internal.TransitionJobStatusRequest(job_id=job_id, expected_from_status=old, to_status=new)
        )
    with pytest.raises(Refusal) as caught:
        await parts.result(job_id)
    assert caught.value.code is UNAVAILABLE
    assert events.job_ids("consistency_anomaly") == [job_id]


async def test_a_result_is_not_ready_until_its_job_has_ended(parts: Parts) -> None:
    job_id = await parts.submit()
    await parts.heartbeat()
    for _ in range(2):
        result = await parts.result(job_id)
        assert (result.result_ready, result.terminal_status) == (False, public.JOB_STATUS_UNSPECIFIED)
        await parts.fetch()
    await parts.report(job_id)
    assert (await parts.result(job_id)).output_bytes == b"abc"


async def test_only_a_failed_job_has_a_failure_reason(parts: Parts) -> None:
    await parts.heartbeat()
    done, failed = await parts.submit(), await parts.submit()
    assert [(await parts.fetch()).job_id for _ in range(2)] == [done, failed]
    await parts.report(done, failure_reason="none of it")
    await parts.report(failed, outcome=internal.FAILED, failure_reason="disk full", output_bytes=b"")
    assert (await parts.read(done)).failure_reason == ""
    assert (await parts.read(failed)).failure_reason == "disk full"


@pytest.mark.parametrize(
    ("job_id", "code"), [("abc", "INVALID_ARGUMENT"), (new_id(), "NOT_FOUND")], ids=["bad", "unknown"]
)
async def test_a_job_that_is_none_is_said_so_by_every_method(parts: Parts, job_id: str, code: str) -> None:
    for call in (parts.status(job_id), parts.result(job_id), parts.cancel(job_id)):
        with pytest.raises(Refusal) as caught:
            await call
        assert caught.value.code.name == code
