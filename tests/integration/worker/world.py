"""A store, a few handlers and workers over them, with short intervals: what the worker's tests are made of."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

from holdfast.app.signature import FunctionSignature
from holdfast.core.commands import NewJob, Submit, Tick
from holdfast.core.errors import HoldfastError
from holdfast.core.job import Job
from holdfast.core.payload import Payload
from holdfast.core.ports import LogStore, Store
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.core.states import State
from holdfast.wiring import create_delivery, create_store
from holdfast.worker.handler import Handler, Isolation, Registry
from holdfast.worker.middleware import Middleware
from holdfast.worker.options import WorkerOptions
from holdfast.worker.slots import Slots
from holdfast.worker.worker import Worker

PATIENCE_SECONDS = 60.0
"""How long a test waits for what must happen; never a measure of speed."""
SOON = Retry(strategy=Strategy.CONSTANT, initial_delay=0.0, jitter=Jitter.NONE)
ENDED = frozenset({State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED})


class World:
    def __init__(self, url: str, store: Store) -> None:
        self.url = url
        self.store = store
        self.registry = Registry()
        self.logs: LogStore | None = None
        self.middleware: Sequence[Middleware] = ()

    def handle(self, function: Callable[..., Any], **given: Any) -> str:
        """Make a handler of the function; its name is the job type."""
        name = given.pop("name", function.__name__)
        is_async = asyncio.iscoroutinefunction(function)
        given.setdefault("isolation", Isolation.LOOP if is_async else Isolation.THREAD)
        signature = FunctionSignature.of(function, name=name)
        self.registry.add(Handler(name=name, function=function, is_async=is_async, signature=signature, **given))
        return str(name)

    @asynccontextmanager
    async def worker(self, **given: Any) -> AsyncIterator[Worker]:
        async with self.new_worker(**given) as worker:
            yield worker

    def new_worker(self, **given: Any) -> Worker:
        given.setdefault("heartbeat_seconds", 0.1)
        given.setdefault("tick_seconds", 0.02)
        given.setdefault("poll_seconds", 0.5)
        given.setdefault("tick", Tick())
        store = given.pop("store", self.store)
        return Worker(
            store,
            delivery=given.pop("delivery", None) or create_delivery(store),
            registry=given.pop("registry", self.registry),
            create_pulse_store=given.pop("create_pulse_store", self.pulse_store),
            logs=self.logs,
            middleware=self.middleware,
            options=WorkerOptions(**given),
        )

    @property
    def pulse_store(self) -> Callable[[], Store] | None:
        return None if self.url == "memory://" else lambda: create_store(self.url)

    async def submit(self, type: str, /, payload: Any = None, **given: Any) -> UUID:  # noqa: A002
        given.setdefault("retry", SOON)
        job = NewJob(id=uuid4(), type=type, payload=Payload.of({} if payload is None else payload), **given)
        await self.submit_all([job])
        return job.id

    async def submit_all(self, jobs: Sequence[NewJob]) -> None:
        (answer,) = await self.store.submit([Submit(jobs=tuple(jobs))])
        if isinstance(answer, HoldfastError):
            raise answer

    async def job(self, job_id: UUID) -> Job:
        (job,) = await self.store.read([job_id])
        assert job is not None
        return job

    async def until(self, job_id: UUID, *states: State) -> Job:
        """The job, once it is in one of the states; without any, once it has ended."""
        wanted = frozenset(states) or ENDED
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (job := await self.job(job_id)).state not in wanted:
                await asyncio.sleep(0.01)
        return job

    async def until_all_ended(self) -> dict[State, int]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                counts: dict[State, int] = {}
                for queue in await self.store.read_queues():
                    for state, jobs in queue.counts.items():
                        counts[state] = counts.get(state, 0) + jobs
                if not any(jobs for state, jobs in counts.items() if state not in ENDED):
                    return {state: jobs for state, jobs in counts.items() if jobs}
                await asyncio.sleep(0.02)


def slots_of(worker: Worker) -> Slots:
    assert worker._slots is not None
    return worker._slots


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)
