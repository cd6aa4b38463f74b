"""What the fixtures of an earlier version hold is all there after the upgrade, and goes on from where it stood."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import AlreadyFired, Claim, Completed, Fire, Heartbeat, Settled, Settlement, Submit, Tick
from holdfast.core.errors import IdempotencyConflict, SchemaMismatch, StaleLease
from holdfast.core.examination import Examination
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.engine.doctor import Doctor
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.testing import ManualClock
from holdfast.testing.factories import new_job, register, replay_one, settle_answer
from tests.upgrades.earlier import Earlier, as_then, said_by

STEP_SECONDS = 60.0
STEPS = 4 * 3600 // int(STEP_SECONDS)
"""Of time; the latest job is due after two hours."""


@pytest.fixture(params=["sqlite", "postgres"])
def earlier(request: pytest.FixtureRequest) -> Earlier:
    return Earlier(request.param)


@dataclass(frozen=True)
class World:
    earlier: Earlier
    store: Store
    clock: ManualClock
    ids: dict[str, UUID]

    async def finding_codes(self) -> list[str]:
        doctor = Doctor(store=self.store, examination=Examination(is_deep=True), patience_seconds=0.0)
        return [finding.code for finding in (await doctor.examine()).findings]


@pytest.fixture
async def world(earlier: Earlier, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The restored database, upgraded and opened."""
    target = str(tmp_path / "jobs.db")
    if earlier.dialect == "postgres":
        target = request.getfixturevalue("postgres_url")
    earlier.restore(target)
    if earlier.dialect == "postgres":
        with pytest.raises(SchemaMismatch, match="run: holdfast migrate"):
            await PostgresStore(target).open()
        await migrate.upgrade(target)
    async with earlier.opened(target) as (store, clock):
        yield World(earlier, store, clock, {name: earlier.id(name) for name in earlier.said["jobs"]})


def test_the_fixture_has_all_states(earlier: Earlier) -> None:
    assert {job["state"] for job in earlier.said["jobs"].values()} == {str(state) for state in State}
    assert len(earlier.leases) == 4


async def test_everything_reads_as_it_was_written(world: World) -> None:
    then = {name: value for name, value in world.earlier.said.items() if name not in ("now", "leases")}
    now = await said_by(world.store, world.ids)
    assert as_then(now, then) == then


async def test_the_examination_finds_nothing(world: World) -> None:
    assert await world.finding_codes() == []


async def test_leases_are_settled_by_their_old_tokens(world: World) -> None:
    leases = world.earlier.leases
    owner = next(iter(leases.values())).owner
    beat = await world.store.heartbeat(Heartbeat(worker=owner, held=tuple(leases.values())))
    assert (beat.is_known, beat.lost, beat.handed_back) == (True, frozenset(), 0)
    assert beat.cancel_requested == {leases["running, to be cancelled"].token}
    settlements = [Settlement(lease=lease, outcome=Completed(b"1")) for lease in leases.values()]
    answers = await world.store.settle(settlements)
    assert {type(answer) for answer in answers} == {Settled}
    again = await world.store.settle(settlements)
    assert all(isinstance(answer, Settled) and answer.is_repeat for answer in again)
    other = leases["running"]
    other = type(other)(other.job_id, other.seq, uuid4(), other.version, other.owner, other.expires_at)
    assert isinstance(await settle_answer(world.store, other), StaleLease)


async def test_keys_still_refuse_duplicates(world: World) -> None:
    key = {"queue": "with a key", "key": "order-2", "payload": Payload(world.earlier.payload("with a key"))}
    same, other = new_job(**key), new_job(**{**key, "payload": Payload(b'{"n": 3}')})
    first, second = await world.store.submit([Submit(jobs=(same,)), Submit(jobs=(other,))])
    assert isinstance(first, tuple)
    assert (first[0].job_id, first[0].is_duplicate) == (world.ids["with a key"], True)
    assert isinstance(second, IdempotencyConflict)


async def test_slots_fire_once_and_api_keys_are_found(world: World) -> None:
    for slot in (await world.store.read_cron()).slots:
        (answer,) = await world.store.fire([Fire(name=slot.name, slot=slot.slot, job=new_job())])
        assert isinstance(answer, AlreadyFired)
        assert answer.job_id == slot.job_id
    keys = {key.name: key for key in await world.store.read_keys()}
    found = await world.store.find_key(keys["ci"].id)
    assert found is not None
    assert found.digest == bytes(31) + b"7"
    assert (keys["ci"].revoked_at is None, keys["old"].revoked_at is None) == (True, False)


async def test_every_job_runs_to_its_end_once(world: World) -> None:
    """A worker of today takes what is left; the one of then is gone, and its leases are taken away."""
    await world.store.resume("paused")
    for name in ("failed", "dead"):
        await replay_one(world.store, world.ids[name])
    worker = await register(world.store, "new")
    runs = Counter[UUID]()
    left = set(world.ids.values())
    for _ in range(STEPS):
        await world.store.heartbeat(Heartbeat(worker=worker, held=()))
        while (report := await world.store.tick(Tick(completed_retention_seconds=1e6))).has_more:
            assert report.removed == 0
        runs.update(await run_all(world.store, worker))
        left = {job.id for job in await world.store.read(list(left)) if job is not None and not job.state.is_terminal}
        if not left:
            break
        world.clock.advance(STEP_SECONDS)
    assert left == set()
    assert max(runs.values()) == 1
    expected = world.earlier.in_states(
        "SCHEDULED", "DELAYED", "PENDING", "RUNNING", "RETRYING", "FAILED", "DEAD_LETTER"
    )
    assert set(runs) == expected - {world.ids["running, to be cancelled"]}
    assert await world.finding_codes() == []
    counts = sum((Counter(queue.counts) for queue in await world.store.read_queues()), Counter())
    assert sum(counts.values()) == len(world.ids)


async def run_all(store: Store, worker: UUID) -> list[UUID]:
    done: list[UUID] = []
    queues = tuple(queue.name for queue in await store.read_queues())
    while claimed := await store.claim(Claim(owner=worker, queues=queues, limit=100, nonce=uuid4())):
        answers = await store.settle([Settlement(lease=job.lease, outcome=Completed(b"1")) for job in claimed])
        assert {type(answer) for answer in answers} == {Settled}
        done += [job.id for job in claimed]
    return done
