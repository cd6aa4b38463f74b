"""A job's document: the same for command line, REST and events."""

import ast
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

import holdfast
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.engine.documents import job_data
from holdfast.stores.memory import MemoryStore
from holdfast.testing.factories import job_in_state, read_one

PACKAGE: Final = Path(holdfast.__file__).parent
VIEWS: Final = {
    State.PENDING: ("QUEUED", "Ready", "PENDING", "PENDING"),
    State.DELAYED: ("QUEUED", "Ready", "PENDING", "PENDING"),
    State.SCHEDULED: ("QUEUED", "Ready", "PENDING", "PENDING"),
    State.RETRYING: ("RUNNING", "Ready", "PENDING", "ENQUEUED"),
    State.RUNNING: ("RUNNING", "InFlight", "IN_PROGRESS", "PROCESSING"),
    State.COMPLETED: ("DONE", "Succeeded", "COMPLETED", "SUCCEEDED"),
    State.FAILED: ("FAILED", "Failed", "FAILED", "DEAD"),
    State.DEAD_LETTER: ("FAILED", "Failed", "FAILED", "DEAD"),
    State.CANCELLED: ("CANCELED", "Failed", "FAILED", "CANCELED"),
}
"""What gRPC, leases, REST and tasks call each state, once more by hand."""
NOT_SHOWN: Final = frozenset({"seq", "depth", "run_at", "retry", "lease_version", "last_attempt_id"})
"""Fields of a job that the document has under another name, or that are the store's own."""


@pytest.mark.parametrize("state", list(State))
async def test_a_document_says_what_other_vocabularies_call_the_state(state: State) -> None:
    store = MemoryStore()
    data = job_data(await read_one(store, await job_in_state(store, state)))
    assert data["state"] == state
    assert data["views"] == dict(zip(("grpc", "lease", "rest", "task"), VIEWS[state], strict=True))


async def test_grpc_knows_no_way_back_after_a_replay() -> None:
    store = MemoryStore()
    job_id = await job_in_state(store, State.FAILED)
    await store.replay([job_id])
    data = job_data(await read_one(store, job_id))
    assert (data["state"], data["views"]["grpc"], data["views"]["rest"]) == ("SCHEDULED", "RUNNING", "PENDING")


async def test_a_document_has_every_field_of_a_job() -> None:
    store = MemoryStore()
    data = job_data(await read_one(store, await job_in_state(store, State.RUNNING)))
    assert {one.name for one in fields(Job)} - data.keys() == NOT_SHOWN


async def test_attempts_are_part_of_a_document_that_stands_alone() -> None:
    store = MemoryStore()
    job = await read_one(store, await job_in_state(store, State.FAILED))
    assert "attempts" not in job_data(job)
    (attempt,) = job_data(job, attempts=await store.read_attempts(job.id))["attempts"]
    assert (attempt["number"], attempt["failure"]["category"]) == (1, "PERMANENT")


def test_nobody_else_makes_a_jobs_document() -> None:
    """Somebody who did would name these keys."""
    makers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        and {"state", "queue"} <= {key.value for key in node.keys if isinstance(key, ast.Constant)}
    }
    assert makers == {"engine/documents.py"}
