"""Where an app's work runs: on the loop that opened the app, and for programs without a loop on the portal's.

A store in memory is in one place only, so both sides must meet there. While the app is open, the sync twins run on its
loop; while it is not, on the caller's thread, one at a time. The store lives as long as the app object.

RUNTIME-1. An app is open on one loop at a time; opening is counted, and the last close closes.
RUNTIME-2. The sync twins and the async side see the same jobs, on every store.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from holdfast.app.client import Client
from holdfast.app.portal import Portals, Work, require_no_loop, run_here
from holdfast.core.errors import UsageError
from holdfast.core.job import Job
from holdfast.core.ports import Store
from holdfast.engine.engine import Engine
from holdfast.engine.results import pauses
from holdfast.wiring import create_store
from holdfast.worker.middleware import Middleware
from holdfast.worker.targets import require_not_importing

T = TypeVar("T")


@dataclass(slots=True)
class _Session:
    """The app, open on one loop."""

    loop: asyncio.AbstractEventLoop
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0
    client: Client | None = None


class Runtime:
    def __init__(
        self, url: str, *, middleware: Sequence[Middleware], submission_seconds: float, payload_limit_bytes: int
    ) -> None:
        self.url = url
        self.middleware = tuple(middleware)
        self.payload_limit_bytes = payload_limit_bytes
        self._submission_seconds = submission_seconds
        self._session: _Session | None = None
        self._portals = Portals(self._connect)
        self._shared: Store | None = None
        """A store that is in one place only: in memory, or given by a test."""
        self._shared_lock = threading.Lock()
        self._is_on_loan = False

    @property
    def is_in_memory(self) -> bool:
        return self.url.startswith("memory:")

    @property
    def is_shared(self) -> bool:
        """There is one store object only, which nobody can make a second time."""
        return self._shared is not None or self.is_in_memory

    def new_store(self) -> Store:
        return create_store(self.url)

    # on the app's own loop

    @property
    def client(self) -> Client:
        session = self._session
        if session is None or session.client is None:
            raise UsageError("the app is not open; write: async with app: …")
        return session.client

    async def open(self) -> None:
        session = self._session_here()
        async with session.lock:
            if session.client is None:
                client = await self._connect()
                # From here on the sync twins come to this loop; one that is under way elsewhere ends first.
                with self._shared_lock:
                    session.client = client
            session.count += 1

    async def close(self) -> None:
        session = self._session
        if session is None or not session.count:
            return
        async with session.lock:
            session.count -= 1
            if session.count == 0 and session.client is not None:
                client, session.client = session.client, None
                await client.engine.close()

    @property
    def open_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the app is open on, if it is."""
        session = self._session
        is_open = session is not None and session.client is not None and not session.loop.is_closed()
        return session.loop if session is not None and is_open else None

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Whoever opens the app meanwhile, or calls a sync twin, finds a store of the caller's. For tests."""
        if self._is_on_loan:
            raise UsageError(
                "the app works on a test's store already; testing.run(app) cannot stand inside another one"
            )
        if self.open_loop is not None:
            raise UsageError(
                "the app is already open; give it a test's store before it is opened: testing.run(app) comes first"
            )
        previous, self._shared, self._is_on_loan = self._shared, store, True
        try:
            yield
        finally:
            # Somebody may have left it open: that was on the caller's store.
            self._shared, self._session, self._is_on_loan = previous, None, False

    @asynccontextmanager
    async def opened_on(self, store: Store) -> AsyncIterator[None]:
        """Open on a store of the caller's, sync twins included. For tests."""
        with self.on_store(store):
            await self.open()
            try:
                yield
            finally:
                await self.close()

    def _session_here(self) -> _Session:
        loop = asyncio.get_running_loop()
        session = self._session
        if session is not None and session.loop is loop:
            return session
        if session is not None and session.count and not session.loop.is_closed():
            raise UsageError(
                "the app is open on another event loop; close it there first, or use the sync twins: submit_sync, …"
            )
        self._session = session = _Session(loop)
        return session

    async def _connect(self) -> Client:
        # A child that imports its program to find a handler must not do all over again what the program does.
        require_not_importing()
        store = self._shared_store() or self.new_store()
        engine = Engine(
            store, submission_seconds=self._submission_seconds, payload_limit_bytes=self.payload_limit_bytes
        )
        await engine.open()
        return Client(engine, store=store, middleware=self.middleware, submission_seconds=self._submission_seconds)

    def _shared_store(self) -> Store | None:
        if self._shared is None and self.is_in_memory:
            self._shared = self.new_store()
        return self._shared

    # for programs without a loop

    def call_sync(self, name: str, work: Work[T], *, instead: str, connection: Any = None) -> T:
        """Run ``work`` to its end from a thread that has no loop."""
        require_no_loop(name, instead)
        if self._shared_store() is not None:
            return self._call_shared(work)
        if connection is not None:
            # sqlite3's connections, and a transaction that is under way, are their thread's.
            return self._portals.call_here(work)
        return self._portals.call(work)

    def wait_sync(self, name: str, job_id: UUID, *, timeout_seconds: float | None, instead: str) -> Job:
        """The job once it has ended."""
        require_no_loop(name, instead)
        if self._shared_store() is None:
            return self._portals.call(lambda client: client.engine.wait(job_id, timeout_seconds=timeout_seconds))
        return self._poll_shared(job_id, timeout_seconds)

    def close_sync(self) -> None:
        self._portals.close()

    def _call_shared(self, work: Work[T]) -> T:
        with self._shared_lock:
            session = self._session
            if session is None or session.client is None or not session.loop.is_running():
                return run_here(self._with_shared(work))
            client, loop = session.client, session.loop
        return asyncio.run_coroutine_threadsafe(work(client), loop).result()

    async def _with_shared(self, work: Work[T]) -> T:
        return await work(await self._connect())

    def _poll_shared(self, job_id: UUID, timeout_seconds: float | None) -> Job:
        # In short calls, because the place may change meanwhile: a worker can only run once the app is open.
        ends_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for pause_seconds in pauses():
            job = self._call_shared(lambda client: client.engine.get(job_id))
            if job.state.is_terminal:
                return job
            if ends_at is not None and time.monotonic() >= ends_at:
                raise TimeoutError(f"job {job_id} has not ended within {timeout_seconds:g} s")
            time.sleep(pause_seconds)
        raise AssertionError("there is always another look")
