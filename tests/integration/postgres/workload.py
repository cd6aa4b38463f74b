"""Everything a store is asked to do, once, with batches of a usual size: for tests that watch the statements."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from holdfast.core.access import NewKey, Scope
from holdfast.core.commands import ClaimIds, Completed, Filter, Fire, Heartbeat, NewJob, Report, Settlement, Tick
from holdfast.core.dependencies import DependencyKind
from holdfast.core.job import ClaimedJob, Progress, Timeouts
from holdfast.core.ports import Store
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.testing import ManualClock
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    HANDED_BACK,
    RETRY,
    after,
    claim,
    new_claim,
    new_job,
    pass_time,
    register,
    submit_jobs,
)

BATCH = 200
QUEUE = "workload"


async def use_every_verb(store: Store, clock: ManualClock) -> None:
    worker = await register(store)
    await submit_everything(store)
    ids = [uuid4(), *await submit_some(store)]
    jobs = await claim(store, worker, queues=(QUEUE,), limit=BATCH)
    await store.claim(new_claim(worker, queues=(QUEUE,), limit=BATCH, types=("example",)))
    again = new_claim(worker, queues=(QUEUE, "queue-1"), limit=BATCH)
    claimed = await store.claim(again)
    assert await store.claim(new_claim(worker, **{**fields_of(again), "is_repeat": True})) == claimed
    by_id = ClaimIds(owner=worker, ids=tuple(ids), queues=(QUEUE,), nonce=uuid4(), types=("example",))
    await store.claim_ids(by_id)
    await store.claim_ids(replace(by_id, is_repeat=True))
    if isinstance(store, PostgresStore):
        await store._claims.floors.refresh()
    await hold(store, worker, jobs)
    await settle_everything(store, jobs)
    await manage(store, claimed)
    await fire_slots(store, clock)
    await use_keys(store)
    await let_time_pass(store, clock)
    await store.leave(worker)


def fields_of(claim: Any) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in ("queues", "limit", "nonce")}


async def submit_some(store: Store) -> list[UUID]:
    jobs = [new_job(queue=QUEUE, priority=Priority.BULK) for _ in range(BATCH)]
    await submit_jobs(store, *jobs)
    return [job.id for job in jobs]


async def submit_everything(store: Store) -> None:
    await submit_jobs(store, new_job(queue=QUEUE))
    await submit_jobs(store, *(new_job(queue=QUEUE) for _ in range(4 * BATCH)))
    await submit_jobs(store, *(new_job(queue=QUEUE, delay_seconds=5.0) for _ in range(BATCH)))
    keyed = [new_job(queue=QUEUE, key=uuid4().hex, tags={"a": "b"}) for _ in range(BATCH)]
    await submit_jobs(store, *keyed)
    parents = [job.id for job in keyed]
    dependents: list[NewJob] = [new_job(queue=QUEUE, dependencies=after(*parents)) for _ in range(3)]
    dependents.append(new_job(queue=QUEUE, dependencies=after(*parents, kind=DependencyKind.AFTER_ANY)))
    dependents.append(new_job(queue=QUEUE, dependencies=after(*parents, kind=DependencyKind.FAN_IN)))
    await submit_jobs(store, *dependents)
    short = Timeouts(lifetime=20.0)
    await submit_jobs(store, *(new_job(queue="nobody claims here", timeouts=short) for _ in range(BATCH)))
    expiring = Timeouts(visibility=1.0)
    await submit_jobs(store, *(new_job(queue="expiring", timeouts=expiring) for _ in range(BATCH)))


async def hold(store: Store, worker: Any, jobs: Sequence[ClaimedJob]) -> None:
    leases = tuple(job.lease for job in jobs)
    await store.extend(leases)
    await store.report([Report(lease=lease, progress=Progress(percent=1.0), checkpoint=b"c") for lease in leases])
    await store.heartbeat(Heartbeat(worker=worker, held=leases))
    await store.heartbeat(Heartbeat(worker=worker, held=leases))


async def settle_everything(store: Store, jobs: Sequence[ClaimedJob]) -> None:
    fifth = len(jobs) // 5
    spawning = Completed(None, (new_job(queue=QUEUE), new_job(queue=QUEUE)))
    outcomes = [COMPLETED] * fifth + [FAIL] * fifth + [RETRY] * fifth + [HANDED_BACK] * fifth + [spawning]
    settlements = [Settlement(lease=job.lease, outcome=one) for job, one in zip(jobs, outcomes, strict=False)]
    await store.settle(settlements[:fifth])
    await store.settle(settlements[fifth:])
    await store.settle(settlements[:fifth])


async def manage(store: Store, jobs: Sequence[ClaimedJob]) -> None:
    worker = await register(store)
    parents = await claim(store, worker, queues=(QUEUE,), limit=4 * BATCH)
    await store.settle([Settlement(lease=job.lease, outcome=FAIL) for job in parents])
    await store.cancel([job.id for job in jobs])
    await store.replay([job.id for job in parents])
    await store.pause("nobody claims here")
    await store.resume("nobody claims here")
    ids = [job.id for job in (*jobs, *parents)]
    await store.read(ids)
    await store.read_attempts(ids[-1])
    await store.read_upstream(ids[-1])
    await store.read_queues()
    await store.read_workers()
    await store.read_place((await submit_jobs(store, new_job(queue="a few")))[0].job_id)
    await store.read_place(ids[-1])


async def fire_slots(store: Store, clock: ManualClock) -> None:
    names = [f"cron-{n}" for n in range(10)]
    for _ in range(2):
        now = clock.now()
        await store.fire([Fire(name=name, slot=now, job=new_job(queue=QUEUE)) for name in names])
        await store.fire([Fire(name=name, slot=now, job=new_job(queue=QUEUE)) for name in names])
        clock.advance(1)
    await store.read_cron()


async def use_keys(store: Store) -> None:
    """But their list, which is read whole."""
    new = NewKey(id=uuid4(), name="ci", scopes=frozenset({Scope.SUBMIT}), digest=bytes(32), expires_in_seconds=60.0)
    for _ in range(2):
        await store.add_key(new)
        assert await store.find_key(new.id) is not None
        await store.revoke_key(new.id)


async def read_lists(store: Store) -> None:
    """Lists look at up to a budget of jobs, however few they show."""
    await store.replay_where(Filter(queue=QUEUE), limit=BATCH)
    for where in (Filter(), Filter(tag=("a", "b")), *(Filter(states=frozenset({state})) for state in State)):
        await store.read_page(where, limit=BATCH)


async def let_time_pass(store: Store, clock: ManualClock) -> None:
    silent = await register(store)
    await claim(store, silent, queues=("expiring",), limit=BATCH // 2)
    beside: Any = SimpleNamespace(store=store, clock=clock)
    await pass_time(beside, 10.0)
    await claim(store, silent, queues=(QUEUE,), limit=BATCH)
    await pass_time(beside, 60.0)
    await store.tick(Tick(batch=BATCH, completed_retention_seconds=0.0, dead_retention_seconds=0.0))
