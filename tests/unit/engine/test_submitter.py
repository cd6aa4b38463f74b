"""Concurrent submits share a call, without waiting for company (SUBMIT-1, SUBMIT-2)."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest

from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.errors import InvalidInput, Unavailable
from holdfast.engine.submit import SHARED_JOBS, Submitter
from holdfast.stores.memory import MemoryStore
from holdfast.testing.factories import after


class GatedStore(MemoryStore):
    """The memory store, but a call goes on only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        self.calls.append(len(submits))
        self.entered.set()
        await self.gate.wait()
        return await super().submit(submits, connection=connection)


def one(**given: Any) -> Submit:
    return Submit(jobs=(NewJob(**{"id": uuid4(), "type": "t", **given}),))


async def settled_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def start(submitter: Submitter, *submits: Submit) -> list["asyncio.Task[tuple[Submitted, ...]]"]:
    tasks = [asyncio.create_task(submitter.submit(submit)) for submit in submits]
    await settled_loop()
    return tasks


async def test_the_first_goes_at_once_and_the_others_go_together() -> None:
    store = GatedStore()
    submits = [one() for _ in range(10)]
    tasks = await start(Submitter(store), *submits)
    assert store.calls == [1]
    store.gate.set()
    answers = await asyncio.gather(*tasks)
    assert store.calls == [1, 9]
    assert [answer[0].job_id for answer in answers] == [submit.jobs[0].id for submit in submits]


async def test_producers_that_go_on_come_to_share_every_call() -> None:
    store = GatedStore()
    submitter = Submitter(store)

    async def produce() -> None:
        for _ in range(40):
            await submitter.submit(one())

    producers = [asyncio.create_task(produce()) for _ in range(10)]
    await settled_loop()
    store.gate.set()
    await asyncio.gather(*producers)
    assert sum(store.calls) == 400
    assert set(store.calls[2:-1]) == {10}


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_comes_just_when_a_call_has_ended_is_not_left_behind(turns: int) -> None:
    store = GatedStore()
    submitter = Submitter(store, timeout_seconds=1.0)
    alone, sharing = await start(submitter, one(), one())

    async def come_back() -> None:
        await sharing
        for _ in range(turns):
            await asyncio.sleep(0)
        await submitter.submit(one())

    coming = asyncio.create_task(come_back())
    await settled_loop()
    store.gate.set()
    await asyncio.gather(alone, coming)
    assert sum(store.calls) == 3


async def test_a_sender_that_was_cancelled_before_it_began_is_replaced() -> None:
    store = GatedStore()
    submitter = Submitter(store, timeout_seconds=1.0)
    (alone,) = await start(submitter, one())
    waiting = submitter._share(one(), submitter._line)
    submitter._is_alone = False
    submitter._start_sender(submitter._line)
    for sender in submitter._line.senders:
        assert sender is not None
        sender.cancel()
    await settled_loop()
    store.gate.set()
    later = await start(submitter, one())
    assert await asyncio.gather(alone, waiting, *later)


async def test_a_refused_submit_disturbs_nobody() -> None:
    store = GatedStore()
    tasks = await start(Submitter(store), one(), one(), one(dependencies=after(uuid4())), one())
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, InvalidInput) for result in results] == [False, False, True, False]


async def test_a_caller_that_gives_up_disturbs_nobody() -> None:
    store = GatedStore()
    tasks = await start(Submitter(store), *(one() for _ in range(4)))
    for task in (tasks[0], tasks[2]):
        task.cancel()
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False, True, False]


async def test_a_store_that_is_away_fails_all_that_shared_the_call_and_none_after_it() -> None:
    class Away(GatedStore):
        is_away = True

        async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
            if self.is_away and self.calls:
                raise Unavailable("away")
            return await super().submit(submits, connection=connection)

    store = Away()
    submitter = Submitter(store)
    tasks = await start(submitter, *(one() for _ in range(3)))
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, Unavailable) for result in results] == [False, True, True]
    store.is_away = False
    assert await submitter.submit(one())


async def test_a_store_that_fails_in_a_way_of_its_own_fails_those_that_shared_the_call_and_none_after_it() -> None:
    class Broken(GatedStore):
        async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
            if len(self.calls) == 1:
                self.calls.append(len(submits))
                raise ZeroDivisionError
            return await super().submit(submits, connection=connection)

    store = Broken()
    big = Submit(jobs=tuple(NewJob(id=uuid4(), type="t") for _ in range(SHARED_JOBS)))
    tasks = await start(Submitter(store), one(), one(), big)
    store.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, Unavailable) for result in results] == [False, True, False]
    assert store.calls == [1, 1, 1]


async def test_no_acknowledgement_in_time_is_unavailable() -> None:
    store = GatedStore()
    submitter = Submitter(store, timeout_seconds=0.01)
    with pytest.raises(Unavailable, match="repeat the same submit"):
        await submitter.submit(one())
    store.gate.set()
    assert await submitter.submit(one())


async def test_each_that_shares_waits_for_its_own_time() -> None:
    store = GatedStore()
    submitter = Submitter(store, timeout_seconds=0.05)
    early = await start(submitter, one(), one())
    await asyncio.sleep(0.03)
    late = await start(submitter, one())
    with pytest.raises(Unavailable, match="repeat the same submit"):
        await early[1]
    assert not late[0].done()
    with pytest.raises(Unavailable, match="repeat the same submit"):
        await late[0]
    await asyncio.gather(*early, return_exceptions=True)
    store.gate.set()
    assert await submitter.submit(one())


async def test_those_that_gave_up_are_not_sent() -> None:
    store = GatedStore()
    submitter = Submitter(store, timeout_seconds=0.01)
    tasks = await start(submitter, one(), one(), one())
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3
    store.gate.set()
    await settled_loop()
    assert store.calls == [1]


async def test_what_was_answered_is_forgotten() -> None:
    store = GatedStore()
    store.gate.set()
    submitter = Submitter(store)
    await asyncio.gather(*(submitter.submit(one()) for _ in range(100)))
    assert not submitter._unanswered


async def test_a_shared_call_is_bounded() -> None:
    store = GatedStore()
    big = Submit(jobs=tuple(NewJob(id=uuid4(), type="t") for _ in range(SHARED_JOBS - 1)))
    tasks = await start(Submitter(store), one(), big, one(), one())
    store.gate.set()
    await asyncio.gather(*tasks)
    assert store.calls == [1, 2, 1]
