"""Put one of everything into a new database, and write down what is in it. Run with the code of an earlier version.

    python fill.py sqlite:///jobs.db jobs.json

So this imports only what that version had (see ``make.py``). Its clock stands far in the future, because a store also
looks at the time its server was started.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from holdfast.core.access import NewKey, Scope
from holdfast.core.commands import Completed, Fire, Heartbeat, NewJob, Report, Stopped, Submit, Tick
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category
from holdfast.core.job import ClaimedJob, Lease, Progress, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry, Strategy
from holdfast.testing.clock import ManualClock
from holdfast.testing.factories import FAIL, RETRY, cancel_one, claim_one, replay_one, settle

BEGINNING = datetime(2100, 1, 1, tzinfo=UTC)
TICK_SECONDS = 5.0
SILENCE_SECONDS = 60.0
KEY_WINDOW_SECONDS = 86400.0


def id_of(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


class Filling:
    def __init__(self, store: Any, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.names: list[str] = []
        self.leases: dict[str, Lease] = {}
        self.alive, self.gone = id_of("alive"), id_of("gone")

    async def submit(self, name: str, **given: Any) -> None:
        """Each in a queue of its own name, unless one is given."""
        job = NewJob(**{"id": id_of(name), "type": "example", "queue": name, **given})
        (answer,) = await self.store.submit([Submit(jobs=(job,))])
        assert answer[0].job_id == job.id, answer
        self.names.append(name)

    async def claim(self, name: str, *, worker: UUID | None = None, **given: Any) -> ClaimedJob:
        await self.submit(name, **given)
        return await claim_one(self.store, worker or self.alive, queues=(name,), nonce=id_of(f"claim of {name}"))

    async def pass_silence(self) -> None:
        """The worker that is gone is noticed, and its lease taken away."""
        for _ in range(int(SILENCE_SECONDS / TICK_SECONDS)):
            self.clock.advance(TICK_SECONDS)
            await self.store.heartbeat(Heartbeat(worker=self.alive, held=tuple(self.leases.values())))
            await self.store.tick(Tick())

    async def fill(self) -> None:
        store = self.store
        await store.register(self.alive, name="alive", queues=("media",), types=("example", "resize"))
        await store.register(self.gone, name="gone", queues=(), types=())
        await self.claim("reclaimed", worker=self.gone)
        await self.pass_silence()
        await self.waiting()
        await self.ended()
        await self.running()
        await store.pause("paused")
        await self.submit("in a paused queue", queue="paused")
        await self.keys_and_cron()
        await self.marked()

    async def waiting(self) -> None:
        await self.submit("scheduled", queue="default", payload=Payload(b'{"n": 1}'))
        await self.submit(
            "with everything",
            queue="media",
            type="resize",
            payload=Payload(b"\x00\xff", is_json=False),
            priority=Priority.HIGH,
            timeouts=Timeouts(execution=7.0, visibility=90.0, lifetime=86400.0 * 30),
            retry=Retry(
                max_attempts=9, strategy=Strategy.CONSTANT, initial_delay=2.5, on=frozenset({Category.TIMEOUT})
            ),
            key="order-1",
            key_window_seconds=KEY_WINDOW_SECONDS,
            tags={"customer": "17", "Stadt": "Köln"},
            correlation_id="request-1",
            callback_url="https://example.org/done",
        )
        await self.submit(
            "with a key", key="order-2", payload=Payload(b'{"n": 2}'), key_window_seconds=KEY_WINDOW_SECONDS
        )
        await self.submit("delayed", delay_seconds=3600.0)
        await self.submit("delayed until", run_at=BEGINNING + timedelta(hours=2))
        after, any_of = DependencyKind.AFTER, DependencyKind.AFTER_ANY
        both = (Dependency(id_of("scheduled"), after), Dependency(id_of("with everything"), after))
        await self.submit("pending", dependencies=both)
        either = (Dependency(id_of("delayed"), any_of), Dependency(id_of("scheduled"), any_of))
        await self.submit("pending for any", dependencies=either, tags={"customer": "18"})
        await self.submit("pending in a chain", dependencies=(Dependency(id_of("pending"), DependencyKind.CHAIN),))
        await settle(self.store, await self.claim("retrying"), RETRY)

    async def ended(self) -> None:
        child = NewJob(id=id_of("spawned"), type="example", queue="spawned")
        await settle(self.store, await self.claim("completed"), Completed(b'{"total": 3}', (child,)))
        self.names.append("spawned")
        await settle(self.store, await self.claim("failed"), FAIL)
        await settle(self.store, await self.claim("dead", retry=Retry(max_attempts=1)), RETRY)
        await settle(self.store, await self.claim("replayed"), FAIL)
        await replay_one(self.store, id_of("replayed"))
        await self.submit("cancelled")
        chain = (Dependency(id_of("cancelled"), DependencyKind.CHAIN),)
        await self.submit("ended by its dependency", dependencies=chain)
        await cancel_one(self.store, id_of("cancelled"))
        stopped = await self.claim("stopped")
        await cancel_one(self.store, stopped.id)
        await settle(self.store, stopped, Stopped())

    async def running(self) -> None:
        for name in ("running", "running with a note", "running, to be cancelled"):
            self.leases[name] = (await self.claim(name)).lease
        noted = Report(
            lease=self.leases["running with a note"],
            progress=Progress(percent=40.0, message="half"),
            checkpoint=b"page 4",
        )
        assert await self.store.report([noted]) == [None]
        await cancel_one(self.store, id_of("running, to be cancelled"))
        self.leases["running, waited for"] = (await self.claim("running, waited for")).lease
        waits = (Dependency(id_of("running, waited for"), DependencyKind.AFTER),)
        await self.submit("pending behind a lease", dependencies=waits)

    async def keys_and_cron(self) -> None:
        scopes = frozenset({Scope.READ})
        for name in ("ci", "old"):
            key = NewKey(
                id=id_of(f"key {name}"), name=name, scopes=scopes, digest=bytes(31) + b"7", expires_in_seconds=None
            )
            await self.store.add_key(key)
        await self.store.revoke_key(id_of("key old"))
        job = NewJob(id=id_of("nightly"), type="report", queue="nightly")
        fires = [Fire(name="nightly", slot=self.clock.now(), job=job), Fire(name="weekly", slot=self.clock.now())]
        await self.store.fire(fires)
        self.names.append("nightly")

    async def marked(self) -> None:
        """As after a crash between a job's end and the telling of its dependents."""
        job = await self.claim("ended, untold")
        waits = (Dependency(job.id, DependencyKind.AFTER),)
        await self.submit("pending, untold", dependencies=waits)
        with untold(self.store):
            await settle(self.store, job, Completed(b'"late"'))

    async def said(self) -> dict[str, Any]:
        store = self.store
        jobs = await store.read([id_of(name) for name in self.names])
        assert None not in jobs
        ids = {name: id_of(name) for name in self.names}
        return {
            "now": self.clock.now(),
            "jobs": dict(zip(self.names, jobs, strict=True)),
            "leases": self.leases,
            "attempts": {name: await store.read_attempts(job) for name, job in ids.items()},
            "upstream": {name: await store.read_upstream(job) for name, job in ids.items()},
            "queues": await store.read_queues(),
            "workers": await store.read_workers(),
            "keys": await store.read_keys(),
            "slots": (await store.read_cron()).slots,
        }


class untold:  # noqa: N801 - read as a statement
    """Nobody takes marks."""

    def __init__(self, store: Any) -> None:
        if type(store).__name__ == "SQLiteStore":
            from holdfast.stores.sqlite.transaction import SQLiteTransaction as Transaction
        else:
            from holdfast.stores.postgres.transaction import PostgresTransaction as Transaction  # type: ignore[assignment]
        self._transaction: Any = Transaction

    def __enter__(self) -> None:
        self._before: Callable[..., Any] = self._transaction.take_marks
        self._transaction.take_marks = _nothing

    def __exit__(self, *_: object) -> None:
        self._transaction.take_marks = self._before


async def _nothing(*_: Any, **__: Any) -> list[int]:
    return []


async def main(url: str, target: Path) -> None:
    clock = ManualClock(BEGINNING)
    store: Any
    if url.startswith("sqlite:///"):
        from holdfast.stores.sqlite import SQLiteStore

        store = SQLiteStore(url.removeprefix("sqlite:///"), clock=clock)
    else:
        from holdfast.stores.postgres import PostgresStore, migrate

        await migrate.upgrade(url)
        store = PostgresStore(url, clock=clock)
    await store.open()
    filling = Filling(store, clock)
    await filling.fill()
    said = msgspec.json.format(msgspec.json.encode(await filling.said(), order="sorted"), indent=1)
    await store.close()
    target.write_bytes(said + b"\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
