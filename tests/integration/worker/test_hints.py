"""A delivery that names all jobs, as a broker does: workers take exactly those, and give every hint back."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Hint, NewJob, Release
from holdfast.core.errors import Unavailable
from holdfast.core.states import State
from holdfast.worker.context import Context
from tests.integration.worker.world import SOON, World, eventually


class Broker:
    """Messages in a list. What is released comes again, at once."""

    tells_all = True

    def __init__(self) -> None:
        self.messages: list[Hint] = []
        self.held: list[Hint] = []
        self.finished: list[Hint] = []
        self.released: list[Release] = []
        self.rooms: list[tuple[dict[str, int], int]] = []
        self.calls: list[str] = []
        self.is_away = False
        self.on_finish: Callable[[], None] = lambda: None
        self._news = asyncio.Event()

    def tell(self, *ids: UUID, queue: str = "default") -> None:
        self.messages += [Hint(queue, (job_id,), receipt=number) for number, job_id in enumerate(ids)]
        self._news.set()

    async def open(self) -> None:
        self.calls.append("open")

    async def close(self) -> None:
        self.calls.append("close")

    async def receive(self, room: Mapping[str, int], *, limit: int, timeout_seconds: float) -> Sequence[Hint]:
        if self.is_away:
            raise Unavailable("the broker is away")
        self.rooms.append((dict(room), limit))
        left, given = dict(room), list[Hint]()
        for hint in self.messages:
            assert hint.queue is not None
            if left.get(hint.queue, 0) > 0 and len(given) < limit:
                left[hint.queue] -= 1
                given.append(hint)
        if given:
            self.messages = [hint for hint in self.messages if hint not in given]
            self.held += given
            return given
        self._news.clear()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._news.wait()
        except TimeoutError:
            return []
        return await self.receive(room, limit=limit, timeout_seconds=timeout_seconds)

    async def finish(self, hints: Sequence[Hint]) -> None:
        self.on_finish()
        self.finished += hints

    async def release(self, releases: Sequence[Release]) -> None:
        self.released += releases
        self.messages += [release.hint for release in releases]
        self._news.set()


class Handler:
    def __init__(self, world: World) -> None:
        self.ran: list[UUID] = []
        self.running = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

        async def work(ctx: Context) -> None:
            self.ran.append(ctx.job_id)
            self.running += 1
            self.most = max(self.most, self.running)
            await self.gate.wait()
            self.running -= 1

        world.handle(work)


@pytest.fixture
def broker() -> Broker:
    return Broker()


async def submitted(world: World, number: int, queue: str = "default") -> list[UUID]:
    jobs = [NewJob(id=uuid4(), type="work", queue=queue, retry=SOON) for _ in range(number)]
    await world.submit_all(jobs)
    return [job.id for job in jobs]


async def test_a_worker_takes_what_it_was_told_of_and_nothing_else(world: World, broker: Broker) -> None:
    handler = Handler(world)
    ids = await submitted(world, 30)
    async with world.worker(delivery=broker, concurrency=4, poll_seconds=0.01):
        broker.tell(*ids[::2])
        await eventually(lambda: len(broker.finished) == 15)
        await asyncio.sleep(0.1)
    assert broker.calls == ["open", "close"]
    assert sorted(handler.ran) == sorted(ids[::2])
    assert broker.released == []


async def test_a_worker_asks_for_as_many_as_it_has_free_slots(world: World, broker: Broker) -> None:
    handler = Handler(world)
    handler.gate.clear()
    ids = await submitted(world, 6)
    broker.tell(*ids)
    async with world.worker(delivery=broker, concurrency=4):
        await eventually(lambda: handler.running == 4)
        await asyncio.sleep(0.05)
        assert len(broker.held) == 4, "the others are left for other workers"
        handler.gate.set()
        await eventually(lambda: len(broker.finished) == 6)
    assert broker.rooms[0] == ({"default": 4}, 4)


async def test_no_more_jobs_of_a_limited_queue_are_asked_for_than_its_limit_leaves(
    world: World, broker: Broker
) -> None:
    handler = Handler(world)
    handler.gate.clear()
    narrow = await submitted(world, 4, "narrow")
    broker.tell(*narrow, queue="narrow")
    async with world.worker(
        delivery=broker, concurrency=4, queues=("narrow", "wide"), limits={"narrow": 1}, poll_seconds=3600.0
    ):
        await eventually(lambda: handler.running == 1)
        wide = await submitted(world, 2, "wide")
        broker.tell(*wide, queue="wide")
        await eventually(lambda: handler.running == 3)
        assert len(broker.held) == 3
        handler.gate.set()
        await eventually(lambda: len(broker.finished) == 6)
    assert sorted(handler.ran) == sorted(narrow + wide)


async def test_a_hint_that_cannot_be_finished_is_let_go_of(world: World, broker: Broker) -> None:
    """RECEIPT-3: it comes again, and its job is gone by then."""
    handler = Handler(world)
    failures = iter([True, True])

    def fail() -> None:
        if next(failures, False):
            raise Unavailable("the broker is away")

    broker.on_finish = fail
    (job_id,) = await submitted(world, 1)
    async with world.worker(delivery=broker):
        for _ in range(3):
            broker.tell(job_id)
            await world.until(job_id)
            await asyncio.sleep(0.1)
        await eventually(lambda: len(broker.finished) == 1)
    assert handler.ran == [job_id]


async def test_a_delivery_that_is_away_is_asked_again(world: World, broker: Broker) -> None:
    handler = Handler(world)
    broker.is_away = True
    ids = await submitted(world, 3)
    async with world.worker(delivery=broker):
        await asyncio.sleep(0.1)
        broker.is_away = False
        broker.tell(*ids)
        await eventually(lambda: len(broker.finished) == 3)
    assert sorted(handler.ran) == sorted(ids)


async def test_a_worker_that_stops_finishes_what_is_stored_and_holds_back_nothing(world: World, broker: Broker) -> None:
    handler = Handler(world)
    handler.gate.clear()
    ids = await submitted(world, 3)
    broker.tell(*ids)
    async with world.worker(delivery=broker, concurrency=2, grace_seconds=0.0):
        await eventually(lambda: handler.running == 2)
    # Handed back: the store has that, and whoever makes a job claimable tells of it.
    assert len(broker.finished) == len(broker.held) == 2
    assert [(await world.job(job_id)).state for job_id in ids] == [State.SCHEDULED] * 3


async def test_a_hint_of_a_job_that_runs_elsewhere_comes_again_until_it_has_ended(world: World, broker: Broker) -> None:
    handler = Handler(world)
    handler.gate.clear()
    (job_id,) = await submitted(world, 1)
    other = Broker()
    async with world.worker(delivery=broker), world.worker(delivery=other):
        broker.tell(job_id)
        await eventually(lambda: handler.running == 1)
        other.tell(job_id)
        await eventually(lambda: len(other.released) >= 2)
        handler.gate.set()
        await eventually(lambda: len(other.finished) == len(broker.finished) == 1)
    assert handler.ran == [job_id]
