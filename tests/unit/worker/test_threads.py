"""Plain functions in threads; cites THREAD-1 to THREAD-4."""

import asyncio
import contextvars
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.worker.threads import EXIT_FORKED, ThreadPool

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(2)
    yield pool
    pool.close(timeout=10)


def submit(pool: ThreadPool, call: Callable[[], Any]) -> asyncio.Future[tuple[Any, BaseException | None]]:
    ended: asyncio.Future[tuple[Any, BaseException | None]] = asyncio.get_running_loop().create_future()
    pool.submit(call, lambda result, error: ended.set_result((result, error)))
    return ended


async def test_a_call_runs_in_a_thread_and_its_result_arrives_on_the_loop(pool: ThreadPool) -> None:
    loops_thread = threading.get_ident()
    told_in: list[int] = []
    told = asyncio.Event()

    def done(result: Any, error: BaseException | None) -> None:
        told_in.append(threading.get_ident())
        told.set()

    ran_in: list[int] = []
    pool.submit(lambda: ran_in.append(threading.get_ident()), done)
    await told.wait()
    assert told_in == [loops_thread]
    assert ran_in != told_in


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration(1)])
async def test_whatever_a_call_raises_is_handed_over_and_the_thread_lives_on(
    pool: ThreadPool, error: BaseException
) -> None:
    def call() -> None:
        raise error

    for _ in range(3):
        assert await submit(pool, call) == (None, error)
    assert await submit(pool, lambda: "fine") == ("fine", None)


async def test_a_call_sees_its_submitters_context_and_changes_only_a_copy(pool: ThreadPool) -> None:
    def call() -> str:
        seen = WHO.get()
        WHO.set("the call")
        return seen

    WHO.set("the submitter")
    assert await submit(pool, call) == ("the submitter", None)
    assert WHO.get() == "the submitter"


async def test_threads_are_started_on_demand_and_never_more_than_the_size() -> None:
    pool = ThreadPool(3, name="on-demand")

    def threads() -> int:
        return sum(thread.name.startswith("on-demand") for thread in threading.enumerate())

    assert threads() == 0
    await submit(pool, lambda: None)
    await submit(pool, lambda: None)
    assert threads() == 1
    gate = threading.Event()
    ended = [submit(pool, gate.wait) for _ in range(10)]
    assert threads() == 3
    gate.set()
    assert await asyncio.gather(*ended) == [(True, None)] * 10
    assert pool.close(timeout=10) == 0
    assert threads() == 0


async def test_calls_that_end_while_the_loop_is_busy_are_handed_over_in_one_wake_up(pool: ThreadPool) -> None:
    loop = asyncio.get_running_loop()
    wake_ups = 0
    waking = loop.call_soon_threadsafe

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal wake_ups
        wake_ups += 1
        return waking(*args, **kwargs)

    loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
    calls = 200
    ran = threading.Semaphore(0)
    ended = [submit(pool, ran.release) for _ in range(calls)]
    for _ in range(calls):
        ran.acquire()  # the loop does nothing else meanwhile
    await asyncio.gather(*ended)
    # Two threads may both find that nobody wakes the loop; the last calls may end after the loop has gone on.
    assert wake_ups <= 5


async def test_no_result_is_lost_among_many(pool: ThreadPool) -> None:
    results: list[int] = []
    all_in = asyncio.Event()
    total = 5000

    def done(result: Any, error: BaseException | None) -> None:
        results.append(result)
        if len(results) == total:
            all_in.set()

    for number in range(total):
        pool.submit(lambda number=number: number, done)  # type: ignore[misc]
        if number % 100 == 0:
            await asyncio.sleep(0)
    await all_in.wait()
    assert sorted(results) == list(range(total))


async def test_an_error_in_done_is_reported_and_spares_the_others(pool: ThreadPool) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, report: reported.append(report["exception"]))
    problem = RuntimeError("not taken")

    def refuse(result: Any, error: BaseException | None) -> None:
        raise problem

    pool.submit(lambda: None, refuse)
    assert await submit(pool, lambda: "fine") == ("fine", None)
    assert reported == [problem]


async def test_close_does_not_wait_for_a_thread_that_hangs() -> None:
    pool = ThreadPool(2)
    gate = threading.Event()
    hung = submit(pool, gate.wait)
    assert await submit(pool, lambda: "beside it") == ("beside it", None)
    assert pool.close() >= 1
    gate.set()
    assert await hung == (True, None)
    assert pool.close(timeout=10) == 0


async def test_an_idle_thread_keeps_nothing_of_its_last_call(pool: ThreadPool) -> None:
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)

    def call(held: Large = large) -> None:
        raise ValueError(held)

    ended = submit(pool, call)
    del large, call
    await ended
    del ended
    await asyncio.sleep(0)  # the loop itself held the future while it woke us
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("how", "code"), [("return", EXIT_FORKED), ("raise", EXIT_FORKED), ("exit", 9)])
async def test_a_forked_copy_ends_where_its_call_ends(pool: ThreadPool, how: str, code: int) -> None:
    def call() -> int:
        copy = os.fork()
        if copy == 0:
            if how == "raise":
                raise RuntimeError("from the copy")
            if how == "exit":
                sys.exit(9)
            return -1
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])

    assert await submit(pool, call) == (code, None)


def test_a_call_that_ends_after_its_loop_is_closed_harms_nobody() -> None:
    pool = ThreadPool(1)
    gate = threading.Event()

    async def leave_it() -> None:
        submit(pool, gate.wait)

    asyncio.run(leave_it())
    gate.set()
    assert pool.close(timeout=10) == 0
