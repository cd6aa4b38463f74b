"""How the tests of child processes run a handler, and what they say of how it ended."""

import asyncio
import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.app.signature import FunctionSignature
from holdfast.core.job import ClaimedJob, Lease, Options, Progress
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.worker.capture import Capture
from holdfast.worker.context import Channel, UpstreamResult
from holdfast.worker.handler import Handler, Isolation
from holdfast.worker.processes import (
    Died,
    ProcessCall,
    ProcessOutcome,
    ProcessPool,
    Raised,
    Returned,
)


class IsolatedJob:
    """Stands for the app's JobType: the decorated name in the module, with the handler on it."""

    def __init__(self, function: Callable[..., Any], **settings: Any) -> None:
        name = settings.pop("name", function.__name__)
        self.handler = Handler(
            name=name,
            function=function,
            isolation=Isolation.PROCESS,
            is_async=inspect.iscoroutinefunction(function),
            signature=FunctionSignature.of(function, name=name),
            **settings,
        )


def isolated(**settings: Any) -> Callable[[Callable[..., Any]], IsolatedJob]:
    return lambda function: IsolatedJob(function, **settings)


class Heard(Channel):
    """A channel that remembers. ``error`` is what its checkpoints are answered with."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.progresses: list[Progress] = []
        self.checkpoints: list[bytes] = []
        self.has_progress = asyncio.Event()
        self.has_checkpoint = asyncio.Event()
        self._error = error

    def progress(self, progress: Progress) -> None:
        self.progresses.append(progress)
        self.has_progress.set()

    async def checkpoint(self, data: bytes) -> None:
        self.checkpoints.append(data)
        self.has_checkpoint.set()
        if self._error is not None:
            raise self._error

    def checkpoint_sync(self, data: bytes) -> None:
        raise AssertionError("the worker's side is a loop")

    def is_cancelled(self) -> bool:
        return False


def claimed(payload: Payload, job_type: str, **overrides: Any) -> ClaimedJob:
    now = datetime.now(UTC)
    lease = Lease(job_id=uuid4(), seq=1, token=uuid4(), version=1, owner=uuid4(), expires_at=now + timedelta(minutes=5))
    given: dict[str, Any] = {
        "lease": lease,
        "type": job_type,
        "queue": "default",
        "priority": Priority.NORMAL,
        "payload": payload,
        "attempt": 1,
        "max_attempts": 3,
        "created_at": now,
        "started_at": now,
        "has_dependencies": False,
        "previous_attempt_id": None,
        "checkpoint": None,
        "encoded_options": None,
    }
    return ClaimedJob(**{**given, **overrides})


class Bench:
    """Starts handlers in a pool, with everything at a default that a test does not care for."""

    def __init__(self, pool: ProcessPool) -> None:
        self.pool = pool
        self.heard = Heard()
        self.capture = Capture(echo=False)

    def start(
        self, job: Any, *, upstream: tuple[UpstreamResult, ...] = (), fields: dict[str, Any] | None = None, **given: Any
    ) -> ProcessCall:
        handler: Handler = job.handler
        claimed_job = claimed(Payload.of(given), handler.name, **(fields or {}))
        return self.pool.start(handler, claimed_job, upstream, self.heard, self.capture)

    async def run(self, job: Any, **given: Any) -> ProcessOutcome:
        return await self.start(job, **given).outcome()


def with_options(**options: Any) -> dict[str, Any]:
    return {"encoded_options": Options(**options).encode()}


def returned(outcome: ProcessOutcome) -> Any:
    assert isinstance(outcome, Returned), outcome
    return None if outcome.result is None else json.loads(outcome.result)


def raised(outcome: ProcessOutcome) -> Raised:
    assert isinstance(outcome, Raised), outcome
    return outcome


def died(outcome: ProcessOutcome) -> str:
    assert isinstance(outcome, Died), outcome
    return outcome.message


def is_alive(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def first_progress(bench: Bench) -> str:
    await bench.heard.has_progress.wait()
    return bench.heard.progresses[0].message


async def announced(bench: Bench) -> list[int]:
    """The processes that a handler names in its checkpoint."""
    await bench.heard.has_checkpoint.wait()
    processes: list[int] = json.loads(bench.heard.checkpoints[0])
    return processes
