"""Which jobs a worker takes, and how many at a time."""

import asyncio
from uuid import uuid4

import pytest

from holdfast.core.commands import Claim, NewJob
from holdfast.core.errors import InvalidInput, UsageError
from holdfast.core.job import ClaimedJob
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.stores.memory import MemoryStore
from holdfast.worker import fetcher as fetcher_module
from holdfast.worker.context import Context
from holdfast.worker.options import WorkerOptions
from tests.integration.worker.awkward import Awkward, Gate
from tests.integration.worker.conftest import on
from tests.integration.worker.world import SOON, World, eventually, slots_of


async def test_queues_are_served_in_the_order_given(world: World) -> None:
    seen: list[str] = []

    async def note(ctx: Context) -> None:
        seen.append(ctx.queue)

    world.handle(note)
    for queue in ("low", "high", "low", "high"):
        await world.submit("note", queue=queue)
    async with world.worker(concurrency=1, queues=("high", "low")):
        await world.until_all_ended()
    assert seen == ["high", "high", "low", "low"]


async def test_urgent_jobs_of_a_queue_run_first(world: World) -> None:
    seen: list[int] = []

    async def note(number: int) -> None:
        seen.append(number)

    world.handle(note)
    for number, priority in enumerate((Priority.BULK, Priority.CRITICAL, Priority.NORMAL)):
        await world.submit("note", {"number": number}, priority=priority)
    async with world.worker(concurrency=1):
        await world.until_all_ended()
    assert seen == [1, 2, 0]


async def test_with_weights_the_queues_are_mixed(world: World) -> None:
    seen: list[str] = []

    async def note(ctx: Context) -> None:
        seen.append(ctx.queue)

    world.handle(note)
    jobs = [NewJob(id=uuid4(), type="note", queue=queue, retry=SOON) for queue in ("a", "b") for _ in range(200)]
    await world.submit_all(jobs)
    async with world.worker(concurrency=1, queues={"a": 3, "b": 1}):
        await world.until_all_ended()
    # In order, "b" would come after all of "a". By the time half of "a" has run, so has about a sixth of "b".
    half = [place for place, queue in enumerate(seen) if queue == "a"][99]
    assert 10 < seen[:half].count("b") < 90


async def test_a_queues_limit_bounds_what_runs_of_it(world: World) -> None:
    running: dict[str, int] = {"narrow": 0, "wide": 0}
    most = dict(running)
    go_on = asyncio.Event()

    async def work(ctx: Context) -> None:
        running[ctx.queue] += 1
        most[ctx.queue] = max(most[ctx.queue], running[ctx.queue])
        await go_on.wait()
        running[ctx.queue] -= 1

    world.handle(work)
    for queue in ("narrow", "wide"):
        for _ in range(6):
            await world.submit("work", queue=queue)
    async with world.worker(concurrency=8, queues=("narrow", "wide"), limits={"narrow": 2}):
        await eventually(lambda: running == {"narrow": 2, "wide": 6})
        go_on.set()
        assert await world.until_all_ended() == {State.COMPLETED: 12}
    assert most["narrow"] == 2


async def test_no_more_runs_than_there_are_slots(world: World) -> None:
    running = 0
    most = 0
    go_on = asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1

    world.handle(work)
    await world.submit_all([NewJob(id=uuid4(), type="work", retry=SOON) for _ in range(20)])
    async with world.worker(concurrency=5) as worker:
        await eventually(lambda: running == 5)
        # They take long: nothing is claimed ahead of them.
        assert not slots_of(worker).fetcher.ready
        go_on.set()
        await world.until_all_ended()
    assert most == 5


async def test_jobs_claimed_ahead_are_given_up_when_a_long_one_keeps_them_waiting(world: World) -> None:
    """Short jobs make the first worker claim ahead; then a long one takes its only slot. A second worker has room."""
    started, go_on = asyncio.Event(), asyncio.Event()

    async def short() -> None: ...

    async def long() -> None:
        started.set()
        await go_on.wait()

    world.handle(short), world.handle(long)
    jobs = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    tail = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    await world.submit_all([*jobs, NewJob(id=uuid4(), type="long", retry=SOON), *tail])
    async with world.worker(concurrency=1) as first:
        await started.wait()
        await eventually(lambda: bool(slots_of(first).fetcher.ready))
        async with world.worker(concurrency=1):
            for job in tail:
                assert (await world.until(job.id)).attempt == 1
        go_on.set()


async def test_a_paused_queue_waits_and_goes_on_when_resumed(world: World) -> None:
    async def note() -> None: ...

    world.handle(note)
    await world.store.pause("default")
    job_id = await world.submit("note")
    other = await world.submit("note", queue="other")
    async with world.worker(queues=("default", "other")):
        await world.until(other)
        assert (await world.job(job_id)).state is State.SCHEDULED
        await world.store.resume("default")
        await world.until(job_id)


async def test_a_job_submitted_to_an_idle_worker_wakes_it(world: World) -> None:
    """The poll would come after an hour."""

    async def note() -> None: ...

    world.handle(note)
    async with world.worker(poll_seconds=3600.0):
        for _ in range(20):
            await world.until(await world.submit("note"))


async def test_a_job_that_comes_while_the_last_of_a_backlog_is_claimed_is_not_overlooked(world: World) -> None:
    """The poll would come after an hour, and with more at hand than is asked for the worker does not listen."""
    ran: list[int] = []

    async def note(number: int) -> None:
        ran.append(number)

    world.handle(note)
    claims = 0

    async def submit_another() -> None:
        nonlocal claims
        claims += 1
        if claims <= 12:
            await world.submit("note", {"number": 100 + claims})

    for number in range(30):
        await world.submit("note", {"number": number})
    store = Awkward(world.store, after={"claim": submit_another})
    async with world.worker(store=store, concurrency=3, poll_seconds=3600.0):
        await eventually(lambda: len(ran) == 42)
    assert sorted(ran) == [*range(30), *range(101, 113)]


async def test_a_delayed_job_is_heard_of_while_a_backlog_is_drained(world: World) -> None:
    """On PostgreSQL, where ticks are few, none would come by itself before the end: the announcement brings it."""
    rest = {"tick_seconds": 3600.0} if world.url.startswith("postgresql") else {}
    seen: list[str] = []

    async def work(name: str) -> None:
        seen.append(name)
        number = len(seen)
        await asyncio.sleep(0.002)
        if number == 50:
            await world.submit("work", {"name": "urgent"}, priority=Priority.CRITICAL, delay_seconds=0.05)

    world.handle(work)
    payload = Payload.of({"name": "usual"})
    await world.submit_all([NewJob(id=uuid4(), type="work", payload=payload, retry=SOON) for _ in range(1500)])
    async with world.worker(concurrency=2, poll_seconds=3600.0, **rest):
        await eventually(lambda: "urgent" in seen)
        assert len(seen) < 1500


@on("memory")
@pytest.mark.parametrize("listen_seconds", [0.0, 3600.0], ids=["always", "seldom"])
async def test_a_wake_up_in_a_drain_leaves_nobody_deaf(
    world: World, monkeypatch: pytest.MonkeyPatch, listen_seconds: float
) -> None:
    """The last claim before it sleeps is made while it listens, and what came while it did not is asked for."""
    monkeypatch.setattr(fetcher_module, "HURRIED_LISTEN_SECONDS", listen_seconds)
    assert isinstance(world.store, MemoryStore)
    wakeups, claim_jobs = world.store.news, world.store.claim
    was_listening: list[bool] = []
    news: list[int] = []

    async def claim(asked: Claim) -> list[ClaimedJob]:
        was_listening.append(wakeups.is_awaited)
        jobs = await claim_jobs(asked)
        if len(was_listening) == 1:
            wakeups.wake_all()
        return jobs

    async def work() -> None: ...

    monkeypatch.setattr(world.store, "claim", claim)
    world.handle(work)
    await world.submit_all([NewJob(id=uuid4(), type="work", retry=SOON) for _ in range(4)])
    worker = world.new_worker(concurrency=4, poll_seconds=3600.0)
    async with worker:
        fetcher = slots_of(worker).fetcher
        monkeypatch.setattr(fetcher, "_on_woken", lambda: news.append(len(was_listening)))
        await eventually(lambda: len(was_listening) == 3)
        await world.until_all_ended()
    # The second was made in a hurry.
    assert was_listening == [True, False, True]
    assert news == ([1] if listen_seconds == 0.0 else [1, 2])


async def test_a_queue_that_was_empty_gets_its_share_while_another_is_drained(world: World) -> None:
    seen: list[str] = []

    async def note(ctx: Context) -> None:
        seen.append(ctx.queue)
        if len(seen) == 20:
            await world.submit("note", queue="b")

    world.handle(note)
    jobs = [NewJob(id=uuid4(), type="note", queue="a", retry=SOON) for _ in range(3000)]
    await world.submit_all(jobs)
    async with world.worker(concurrency=4, queues={"a": 1, "b": 1}, poll_seconds=3600.0):
        await world.until_all_ended()
    assert len(seen) == 3001
    assert seen.index("b") < 2500


async def test_a_wake_up_that_finds_a_limited_queue_full_is_remembered(world: World) -> None:
    """The poll would come after an hour: the end of the job that fills the queue has to bring the next one."""
    ran: list[int] = []
    go_on = asyncio.Event()

    async def work(number: int) -> None:
        ran.append(number)
        if number == 0:
            await go_on.wait()

    world.handle(work)
    gate = Gate()
    store = Awkward(world.store, news=gate)
    async with world.worker(
        store=store, queues=("narrow", "wide"), limits={"narrow": 1}, concurrency=4, poll_seconds=3600.0
    ):
        await world.submit("work", {"number": 0}, queue="narrow")
        await eventually(lambda: ran == [0])
        gate.shut()
        await world.submit("work", {"number": 1}, queue="narrow")
        await gate.met.wait()  # the wake-up was heard, and the fetcher listens for the next one
        gate.open()
        await world.until(await world.submit("work", {"number": 2}, queue="wide"))
        assert ran == [0, 2]
        go_on.set()
        await world.until_all_ended()
    assert ran == [0, 2, 1]


async def test_a_limited_queues_slot_that_is_freed_while_a_claim_is_under_way_is_seen(world: World) -> None:
    """The claim found the narrow queue full; its job ends before the claim of the other queue is answered."""
    ran: list[str] = []
    go_on = asyncio.Event()

    async def work(name: str) -> None:
        ran.append(name)
        if name == "first":
            await go_on.wait()

    world.handle(work)
    gate = Gate()
    await world.submit("work", {"name": "first"}, queue="narrow")
    second = await world.submit("work", {"name": "second"}, queue="narrow")
    async with world.worker(
        store=Awkward(world.store, claim=gate),
        queues=("narrow", "wide"),
        limits={"narrow": 1},
        concurrency=4,
        poll_seconds=3600.0,
    ) as worker:
        await eventually(lambda: ran == ["first"])
        gate.shut()
        await world.submit("work", {"name": "third"}, queue="wide")
        await gate.met.wait()
        go_on.set()
        await eventually(lambda: not slots_of(worker).executor.running)
        gate.open()
        assert (await world.until(second)).state is State.COMPLETED
    assert sorted(ran) == ["first", "second", "third"]


async def test_a_delayed_job_runs_when_it_is_due(world: World) -> None:
    async def note() -> None: ...

    world.handle(note)
    async with world.worker(poll_seconds=3600.0):
        job = await world.until(await world.submit("note", delay_seconds=0.3))
    assert job.started_at is not None
    assert (job.started_at - job.created_at).total_seconds() >= 0.3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"queues": ()}, "queues is"),
        ({"queues": "default"}, "write queues="),
        ({"queues": {"a": 0}}, "weight of queue 'a'"),
        ({"limits": {"other": 1}}, "'other'"),
        ({"limits": {"default": 0}}, "limit of queue 'default'"),
        ({"grace_seconds": -1.0}, "grace"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises((UsageError, InvalidInput), match=words):
        WorkerOptions(**given)  # type: ignore[arg-type]
