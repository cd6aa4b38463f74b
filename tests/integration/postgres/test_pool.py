"""Who gets which connection when none is free, and what happens when no other can be opened."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.core.errors import Unavailable
from holdfast.stores.postgres import pool as pool_module
from holdfast.stores.postgres.pool import Pool
from tests.integration.postgres.databases import LONG_SECONDS


class Door:
    """Opens real connections, when the test lets it; ``refusal`` is raised instead."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.refusal: Exception | None = None
        self.knocks = 0
        self.opened: list[Any] = []

    async def connect(self) -> Any:
        self.knocks += 1
        await self.is_open.wait()
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(await asyncpg.connect(self._url))
        return self.opened[-1]


@pytest.fixture
async def door(url: str) -> AsyncIterator[Door]:
    door = Door(url)
    yield door
    for connection in door.opened:
        connection.terminate()


async def soon(task: "asyncio.Task[Any]") -> Any:
    async with asyncio.timeout(LONG_SECONDS):
        return await task


async def waiting(pool: Pool) -> "asyncio.Task[Any]":
    """Somebody who found no connection free."""
    task = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_one_that_is_given_back_is_not_waited_for_because_another_is_being_opened(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    first = await pool.take()
    door.is_open.clear()
    second = await waiting(pool)
    pool.give(first, is_clean=True)
    assert await soon(second) is first
    # The other was not opened in vain.
    door.is_open.set()
    third = await soon(await waiting(pool))
    assert third is not first
    assert len(door.opened) == 2
    await pool.close()


async def test_whoever_waits_is_served_in_turn_and_before_whoever_comes_later(door: Door) -> None:
    pool = Pool(door.connect, size=1)
    first = await pool.take()
    tasks = [await waiting(pool) for _ in range(3)]
    for number, task in enumerate(tasks):
        pool.give(first, is_clean=True)
        late = await waiting(pool)
        assert await soon(task) is first
        assert not any(other.done() for other in tasks[number + 1 :])
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
    assert door.knocks == 1
    await pool.close()


async def test_no_more_than_its_size_are_opened(door: Door) -> None:
    pool = Pool(door.connect, size=3)
    tasks = [await waiting(pool) for _ in range(10)]
    held = [await soon(task) for task in tasks[:3]]
    assert door.knocks == 3
    for task in tasks[3:]:
        pool.give(held.pop(), is_clean=True)
        held.append(await soon(task))
    assert door.knocks == 3
    await pool.close()


async def test_where_none_is_open_everybody_is_told_why(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    door.refusal = OSError("nobody listens")
    door.is_open.clear()
    tasks = [await waiting(pool) for _ in range(5)]
    door.is_open.set()
    for task in tasks:
        with pytest.raises(OSError, match="nobody listens"):
            await soon(task)
    door.refusal = None
    assert not (await soon(await waiting(pool))).is_closed()
    await pool.close()


async def test_where_none_is_open_who_waited_longest_is_told_while_others_are_still_being_opened(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    door.is_open.clear()
    first = await waiting(pool)
    # The host of the first does not answer; that of the second has not decided yet.
    hung, door.is_open = door.is_open, asyncio.Event()
    second = await waiting(pool)
    door.refusal = OSError("no route to host")
    hung.set()
    with pytest.raises(OSError, match="no route to host"):
        await soon(first)
    assert not second.done()
    door.refusal = None
    door.is_open.set()
    assert not (await soon(second)).is_closed()
    await pool.close()


async def test_a_refusal_is_nobodys_error_while_another_connection_will_be_given_back(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    first = await pool.take()
    door.refusal = OSError("too many clients already")
    second = await waiting(pool)
    assert door.knocks == 2
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    pool.give(first, is_clean=True)
    assert await soon(second) is first
    await pool.close()


async def test_opening_is_tried_again_for_those_who_still_wait(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "OPEN_AGAIN_SECONDS", 0.01)
    pool = Pool(door.connect, size=2)
    first = await pool.take()
    door.refusal = OSError("too many clients already")
    second = await waiting(pool)
    assert not second.done()
    door.refusal = None
    assert await soon(second) is not first
    await pool.close()


async def test_an_opening_that_hangs_is_not_what_the_next_one_waits_for(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    door.is_open.clear()
    gone = await waiting(pool)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    # The host that did not answer is another one by now; what was begun before still hangs.
    door.is_open = asyncio.Event()
    door.is_open.set()
    assert not (await soon(await waiting(pool))).is_closed()
    assert door.knocks == 2
    await pool.close()


async def test_none_of_several_openings_that_hang_is_what_the_next_one_waits_for(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    door.is_open.clear()
    gone = [await waiting(pool) for _ in range(2)]
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    door.is_open = asyncio.Event()
    door.is_open.set()
    assert not (await soon(await waiting(pool))).is_closed()
    assert door.knocks == 3
    await pool.close()


async def test_when_the_last_connection_breaks_those_who_wait_get_a_new_one(door: Door) -> None:
    pool = Pool(door.connect, size=1)
    first = await pool.take()
    second = await waiting(pool)
    first.terminate()
    pool.give(first, is_clean=False)
    assert await soon(second) is door.opened[1]
    await pool.close()


async def test_a_connection_handed_to_somebody_who_gave_up_is_not_lost(door: Door) -> None:
    pool = Pool(door.connect, size=1)
    first = await pool.take()
    second = await waiting(pool)
    pool.give(first, is_clean=True)
    # It is theirs already, but they have not run since.
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await soon(await waiting(pool)) is first
    await pool.close()


async def test_whoever_gave_up_waiting_is_passed_by(door: Door) -> None:
    pool = Pool(door.connect, size=1)
    first = await pool.take()
    gone, next_one = await waiting(pool), await waiting(pool)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    pool.give(first, is_clean=True)
    assert await soon(next_one) is first
    await pool.close()


async def test_waiting_for_the_first_ends_with_advice(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "WAIT_SECONDS", 0.05)
    pool = Pool(door.connect, size=2)
    door.is_open.clear()
    with pytest.raises(Unavailable, match="did not answer"):
        await soon(await waiting(pool))
    await pool.close()


@pytest.mark.parametrize(
    ("size", "advice"), [(1, r"became free.*\?pool=20"), (2, "no other could be opened: too many clients already")]
)
async def test_waiting_for_another_ends_with_advice(
    door: Door, monkeypatch: pytest.MonkeyPatch, size: int, advice: str
) -> None:
    pool = Pool(door.connect, size=size)
    await pool.take()
    door.refusal = OSError("too many clients already")
    monkeypatch.setattr(pool_module, "WAIT_SECONDS", 0.05)
    with pytest.raises(Unavailable, match=advice):
        await soon(await waiting(pool))
    await pool.close()


async def test_closing_tells_those_who_wait_and_leaves_nothing_open(door: Door) -> None:
    pool = Pool(door.connect, size=2)
    first = await pool.take()
    door.is_open.clear()
    second = await waiting(pool)
    await pool.close()
    with pytest.raises(Unavailable, match="closed"):
        await soon(second)
    with pytest.raises(Unavailable, match="closed"):
        await pool.take()
    assert first.is_closed()
    assert len(door.opened) == 1


async def test_whoever_uses_a_connection_when_the_pool_is_closed_is_told_so(door: Door) -> None:
    pool = Pool(door.connect, size=1)
    has_begun = asyncio.Event()

    async def work(connection: Any) -> None:
        has_begun.set()
        await connection.execute(f"SELECT pg_sleep({LONG_SECONDS})")

    task = asyncio.create_task(pool.lend(work))
    await has_begun.wait()
    await pool.close()
    with pytest.raises(asyncpg.PostgresConnectionError):
        await soon(task)


async def test_after_an_answer_that_did_not_come_no_idle_connection_is_used_again(door: Door) -> None:
    pool = Pool(door.connect, size=5)
    first, second = await pool.take(), await pool.take()
    pool.give(first, is_clean=True)
    pool.give(second, is_clean=True)

    async def ask(connection: Any) -> None:
        await connection.fetch("SELECT pg_sleep(60)", timeout=0.05)

    with pytest.raises(TimeoutError):
        await pool.lend(ask)
    assert await pool.take() not in (first, second)
    await pool.close()
