"""``drain``: the app's own jobs, run for a test until nothing is left."""

import asyncio
import os
import time
import traceback
from typing import Any, assert_type

import pytest

from holdfast import Holdfast, JobFailed, State, UsageError, fan_in, testing
from holdfast.core.errors import WorkerStuck
from holdfast.testing.clock import ManualClock
from tests.unit.testing import shop
from tests.unit.testing.shop import add, app, ask, charge, in_a_process, order, outbox, refuse, send_mail, signup


async def test_a_drain_runs_what_can_run_now_and_leaves_the_rest() -> None:
    async with testing.run(app) as jobs:
        await signup("ann@example.org")
        assert outbox == []
        drained = await jobs.drain()
        assert outbox == [("ann@example.org", "Welcome")]
        assert [job.state for job in drained.ran] == [State.COMPLETED]
        (waiting,) = drained.waiting
        assert waiting.due_at is not None
        assert (waiting.due_at - jobs.now).total_seconds() == 86400
        assert repr(drained) == "<Drained: 1 ran, 0 failed, 1 waiting>"
        assert await app.workers() == []


async def test_a_drain_that_waits_moves_the_clock_to_what_is_delayed() -> None:
    async with testing.run(app, cron=False) as jobs:
        await signup("ann@example.org")
        began = jobs.now
        drained = await jobs.drain(wait=True)
        assert [subject for _, subject in outbox] == ["Welcome", "How is it?"]
        assert (jobs.now - began).total_seconds() == 86400
        assert drained.waiting == ()


async def test_what_a_job_submits_and_spawns_is_run_by_the_same_drain() -> None:
    async with testing.run(app) as jobs:
        await order.submit(3)
        drained = await jobs.drain()
        assert len(drained.ran) == 4
        assert [to for to, _ in outbox] == ["item-0", "item-1", "item-2"]


async def test_a_job_may_wait_for_another_one() -> None:
    """HANDS-1"""
    async with testing.run(app) as jobs:
        handle = await ask.submit("ann")
        result = await jobs.result(handle)
        assert_type(result, str)
        assert result == "mail to ann"


async def test_a_workflow_runs_to_its_end() -> None:
    async with testing.run(app) as jobs:
        handle = await fan_in(add.call(1, 2), add.call(3, 4), into=shop.total.call()).submit()
        assert await jobs.result(handle) == 10


async def test_jobs_of_every_queue_are_run() -> None:
    async with testing.run(app) as jobs:
        await send_mail.options(queue="a queue that nobody named before").submit("ann")
        await jobs.drain()
        assert len(outbox) == 1


async def test_the_apps_middleware_is_around_its_jobs() -> None:
    async with testing.run(app) as jobs:
        await send_mail.submit("ann")
        await jobs.drain()
        assert shop.counting.executed == 1


async def test_a_paused_queue_and_a_type_without_a_function_are_left_alone() -> None:
    async with testing.run(app, cron=False) as jobs:
        await app.pause("mails")
        await send_mail.submit("ann")
        await app.submit("of another program", {"x": 1})
        drained = await jobs.drain(wait=True)
        assert drained.ran == ()
        assert [job.state for job in drained.waiting] == [State.SCHEDULED, State.SCHEDULED]


async def test_one_at_a_time_is_in_the_order_of_a_worker() -> None:
    async with testing.run(app, concurrency=1) as jobs:
        for number in range(5):
            await send_mail.submit(str(number))
        await jobs.drain()
        assert [to for to, _ in outbox] == ["0", "1", "2", "3", "4"]


async def test_a_drain_does_not_wait_for_anything_but_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For no poll, no tick, no heartbeat, no child process: all timers that it sets are deadlines."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    call_at = loop.call_at

    def noted(when: float, *args: Any, **named: Any) -> asyncio.TimerHandle:
        waits.append(when - loop.time())
        return call_at(when, *args, **named)

    async with testing.run(app) as jobs:
        monkeypatch.setattr(loop, "call_at", noted)
        await send_mail.submit("ann")
        await add.submit(1, 2)
        await charge.submit(3, failures=0)
        await jobs.drain()
        assert len(outbox) == 3
        assert waits
        assert [seconds for seconds in waits if seconds < 20] == []


async def test_logs_are_kept_with_the_test() -> None:
    talking = Holdfast(shop.URL)

    @talking.job
    async def talk() -> None:
        print("said in a job")  # noqa: T201 - that is what is tested

    async with testing.run(talking) as jobs:
        handle = await talk.submit()
        await jobs.drain()
        (log,) = await talking.logs(handle)
        assert b"said in a job" in log.data


# failures


async def test_a_failed_job_fails_the_test_with_what_its_handler_raised() -> None:
    async with testing.run(app) as jobs:
        await charge.submit(7)
        with pytest.raises(testing.HandlerFailed) as caught:
            await jobs.drain()
        assert isinstance(caught.value, AssertionError)
        assert str(caught.value) == (
            "1 job failed:\n"
            "  charge(amount=7) failed at attempt 1 of 3, the next is due in 1 s: "
            "holdfast.core.failures.TemporaryError: the bank is away (1)\n"
            "(where the failure is what you test: drain(raise_failures=False), and look at what it returns)"
        )
        cause = caught.value.__cause__
        assert str(cause) == "the bank is away (1)"
        assert cause is not None
        assert any(frame.name == "charge" for frame in traceback.extract_tb(cause.__traceback__))


async def test_several_failed_jobs_are_all_named_with_their_traces() -> None:
    async with testing.run(app) as jobs:
        await refuse.submit("first")
        await refuse.submit("second")
        with pytest.raises(testing.HandlerFailed) as caught:
            await jobs.drain()
        text = str(caught.value)
        assert text.startswith("2 jobs failed:\n  refuse(reason='first') ended FAILED, without another attempt: ")
        assert "  refuse(reason='second') ended FAILED" in text
        # The first one's is the cause's.
        assert text.count("Traceback") == 1
        assert [str(one.error) for one in caught.value.failed] == ["first", "second"]


async def test_a_failure_that_the_test_expects_is_returned() -> None:
    async with testing.run(app) as jobs:
        handle = await refuse.submit("no")
        drained = await jobs.drain(raise_failures=False)
        (failed,) = drained.failed
        assert failed.job.id == handle.id
        assert failed.failure is not None
        assert failed.failure.message == "no"
        assert isinstance(failed.error, Exception)


async def test_a_failure_is_told_once() -> None:
    """STAGE-2"""
    async with testing.run(app) as jobs:
        handle = await refuse.submit("no")
        await jobs.drain(raise_failures=False)
        assert (await jobs.drain()).failed == ()
        with pytest.raises(JobFailed):
            await jobs.result(handle)
        await app.replay(handle)
        with pytest.raises(testing.HandlerFailed):
            await jobs.drain()


async def test_a_failure_that_a_retry_mended_is_none() -> None:
    """STAGE-2"""
    async with testing.run(app) as jobs:
        handle = await charge.submit(7, failures=2)
        drained = await jobs.drain(wait=True)
        assert drained.failed == ()
        assert await jobs.result(handle) == 7


async def test_retries_that_end_in_vain_fail_the_test() -> None:
    async with testing.run(app) as jobs:
        await charge.submit(7)
        with pytest.raises(testing.HandlerFailed, match=r"charge\(amount=7\) ended DEAD_LETTER after 3 attempts"):
            await jobs.drain(wait=True)


async def test_what_ends_with_a_dependency_is_not_named_beside_it() -> None:
    async with testing.run(app) as jobs:
        first = await refuse.submit("no")
        await send_mail.options(after=first).submit("ann")
        drained = await jobs.drain(raise_failures=False)
        assert [one.job.type for one in drained.failed] == ["refuse"]
        # A job that ends in this way later is news.
        await send_mail.options(after=first).submit("bob")
        with pytest.raises(testing.HandlerFailed, match=r"send_mail\(to='bob'\) ended FAILED"):
            await jobs.drain()


async def test_what_a_child_process_raised_is_shown_with_its_trace() -> None:
    async with testing.run(app) as jobs:
        await in_a_process.submit(1, 0)
        with pytest.raises(testing.HandlerFailed, match=r"(?s)ZeroDivisionError: b is 0.*Traceback.*in_a_process"):
            await jobs.drain()


async def test_what_middleware_raises_is_the_cause() -> None:
    class Strict(shop.Counting):
        async def execute(self, execution: Any, proceed: Any) -> Any:
            raise LookupError("no tenant")

    strict = Holdfast(shop.URL, middleware=[Strict()])

    @strict.job
    async def work() -> None: ...

    async with testing.run(strict) as jobs:
        await work.submit()
        with pytest.raises(testing.HandlerFailed, match="no tenant") as caught:
            await jobs.drain()
        assert isinstance(caught.value.__cause__, LookupError)


async def test_a_cancelled_job_is_no_failure() -> None:
    cancelling = Holdfast(shop.URL)
    started = asyncio.Event()

    @cancelling.job
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    @cancelling.job
    async def cancel(job_id: str) -> None:
        await started.wait()
        await cancelling.cancel(job_id)

    async with testing.run(cancelling) as jobs:
        handle = await endless.submit()
        await cancel.submit(str(handle.id))
        drained = await jobs.drain()
        assert (await handle.job()).state is State.CANCELLED
        assert drained.failed == ()


# results


async def test_the_result_of_a_job_that_is_not_due_is_not_waited_for() -> None:
    async with testing.run(app) as jobs:
        later = await send_mail.options(delay=60).submit("ann")
        with pytest.raises(AssertionError, match=r"send_mail\(to='ann'\) has not ended .* DELAYED: it is due in 60 s"):
            await jobs.result(later)
        after = await send_mail.options(after=later).submit("bob")
        with pytest.raises(AssertionError, match="PENDING: it waits for other jobs"):
            await jobs.result(after)
        with pytest.raises(AssertionError, match="SCHEDULED: its queue is paused, or the app has no function for it"):
            await jobs.result(await app.submit("of another program"))


# bounds


async def test_a_job_that_submits_itself_for_ever_is_stopped() -> None:
    endless = Holdfast(shop.URL)

    @endless.job
    async def again() -> None:
        await again.submit()

    async with testing.run(endless, max_jobs=50) as jobs:
        await again.submit()
        with pytest.raises(UsageError, match="50 attempts were made and 'again' is still to run"):
            await jobs.drain()
        # HANDS-2: what was claimed and not started is back.
        assert (await endless.list(states=State.RUNNING)).jobs == ()


async def test_a_handler_that_waits_for_ever_ends_the_drain_by_name() -> None:
    """HANDS-2"""
    waiting = Holdfast(shop.URL)
    ended = asyncio.Event()

    @waiting.job
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with testing.run(waiting, timeout=0.05) as jobs:
        handle = await wait.submit()
        with pytest.raises(TimeoutError, match=r"after 0\.05 s of real time there is still running: wait\."):
            await jobs.drain()
        assert ended.is_set()
        # Handed back, not failed.
        job = await handle.job()
        assert (job.state, job.attempt) == (State.SCHEDULED, 0)


async def test_handlers_that_do_not_return_are_named() -> None:
    stuck = Holdfast(shop.URL)
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    @stuck.job(timeout=0.05)
    def sleep() -> None:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()

    async with testing.run(stuck, concurrency=1) as jobs:
        await sleep.submit()
        await sleep.submit()
        with pytest.raises(WorkerStuck, match="sleep"):
            await jobs.drain()
        released.set()


async def test_a_drain_inside_a_drain_is_refused() -> None:
    nested = Holdfast(shop.URL)

    @nested.job
    async def drain() -> None:
        await jobs.drain()

    async with testing.run(nested) as jobs:
        await drain.submit()
        with pytest.raises(testing.HandlerFailed, match="a drain is under way"):
            await jobs.drain()


# where handlers run


async def test_a_process_isolated_handler_runs_in_a_process() -> None:
    async with testing.run(app) as jobs:
        assert await jobs.result(await in_a_process.submit(1, 1)) != os.getpid()
        assert outbox == []


async def test_inline_a_process_isolated_handler_runs_here() -> None:
    async with testing.run(app, inline=True) as jobs:
        assert await jobs.result(await in_a_process.submit(1, 1)) == os.getpid()
        assert len(outbox) == 1


async def test_a_plain_function_may_submit() -> None:
    async with testing.run(app) as jobs:
        await shop.remind_later.submit("ann")
        await jobs.drain()
        jobs.assert_submitted_once(send_mail, "ann", "Remember")


async def test_a_worker_may_run_beside_the_test_for_code_that_waits_for_results() -> None:
    async with testing.run(app) as jobs, app.worker():
        handle = await send_mail.submit("ann")
        assert await handle.result(timeout=30) == "mail to ann"
        jobs.assert_submitted_once(send_mail)


def test_the_clock_of_a_test_is_a_manual_one() -> None:
    with testing.run(app) as jobs:
        assert isinstance(jobs.clock, ManualClock)
        assert abs(jobs.now.timestamp() - time.time()) < 3600
