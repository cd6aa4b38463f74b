"""QueueInternalService: first in, first out, each once, and a call that waits."""

import time
from uuid import uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from tests.blackbox.api import refusal
from tests.blackbox.internal.parts import Parts

DEQUEUE_WAIT_SECONDS = 0.7
MINIMUM_LEFT_SECONDS = 0.2


@pytest.fixture
def queue(quiet: Parts) -> Parts:
    """Emptied: nobody else dequeues here."""
    while dequeue(quiet).found:
        pass
    return quiet


def enqueue(parts: Parts, job_id: str) -> bool:
    answer = parts.gateway("queue", "EnqueueJob", job_id=job_id, enqueued_at_ms=int(time.time() * 1000))
    return bool(answer.accepted)


def dequeue(parts: Parts, *, timeout: float = 5) -> internal.DequeueJobResponse:
    request = internal.DequeueJobRequest(worker_id="w1")
    answer: internal.DequeueJobResponse = parts.call(
        "queue", "DequeueJob", request, caller="coordinator", timeout=timeout
    )
    return answer


def test_jobs_come_out_in_the_order_they_went_in(queue: Parts) -> None:
    job_ids = [str(uuid4()) for _ in range(20)]
    assert all(enqueue(queue, job_id) for job_id in job_ids)
    assert [dequeue(queue).job_id for _ in job_ids] == job_ids
    assert not dequeue(queue).found


def test_a_job_is_in_the_queue_once_however_often_it_is_put_there(queue: Parts) -> None:
    job_id, other = str(uuid4()), str(uuid4())
    assert [enqueue(queue, one) for one in (job_id, other, job_id, job_id)] == [True] * 4
    assert [dequeue(queue).job_id for _ in range(2)] == [job_id, other]
    assert not dequeue(queue).found


def test_a_job_that_has_left_can_be_put_there_again(queue: Parts) -> None:
    job_id = str(uuid4())
    for _ in range(2):
        enqueue(queue, job_id)
        assert dequeue(queue).job_id == job_id


def test_a_removed_job_is_gone_and_says_so_once(queue: Parts) -> None:
    gone, kept = str(uuid4()), str(uuid4())
    enqueue(queue, gone)
    enqueue(queue, kept)
    removed = [queue.gateway("queue", "RemoveJobIfPresent", job_id=gone).removed for _ in range(3)]
    assert removed == [True, False, False]
    assert not queue.gateway("queue", "RemoveJobIfPresent", job_id=str(uuid4())).removed
    assert dequeue(queue).job_id == kept


def test_a_call_that_waits_gets_the_job_that_comes(queue: Parts) -> None:
    waiting = queue.future("queue", "DequeueJob", caller="coordinator", worker_id="w1", timeout=5)
    job_id = str(uuid4())
    enqueue(queue, job_id)
    assert waiting.result().job_id == job_id


def test_calls_that_wait_are_served_in_turn_and_each_job_goes_to_one(queue: Parts) -> None:
    waiting = [queue.future("queue", "DequeueJob", caller="coordinator", worker_id="w1", timeout=5) for _ in range(6)]
    job_ids = [str(uuid4()) for _ in range(6)]
    for job_id in job_ids:
        enqueue(queue, job_id)
    assert sorted(call.result().job_id for call in waiting) == sorted(job_ids)


def test_an_empty_queue_answers_that_it_is_empty(queue: Parts) -> None:
    answer = dequeue(queue)
    assert (answer.found, answer.job_id) == (False, "")


def test_a_call_whose_answer_might_not_arrive_takes_nothing(queue: Parts) -> None:
    job_id = str(uuid4())
    enqueue(queue, job_id)
    assert not dequeue(queue, timeout=MINIMUM_LEFT_SECONDS - 0.05).found
    assert dequeue(queue).job_id == job_id


def test_a_call_that_was_given_up_takes_nothing_with_it(queue: Parts) -> None:
    for _ in range(5):
        waiting = queue.future("queue", "DequeueJob", caller="coordinator", worker_id="w1", timeout=5)
        waiting.cancel()
        job_id = str(uuid4())
        enqueue(queue, job_id)
        assert dequeue(queue).job_id == job_id


@pytest.mark.parametrize("method", ["EnqueueJob", "RemoveJobIfPresent"])
def test_a_malformed_id_is_refused(queue: Parts, method: str) -> None:
    error = refusal(lambda: queue.gateway("queue", method, job_id="abc"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
