"""``advance``: time passes as it does for a worker, one thing after the other."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Holdfast, JobNotFound, Retry, State, UsageError, testing
from tests.unit.testing import shop
from tests.unit.testing.conftest import MIDNIGHT
from tests.unit.testing.shop import app, charge, clean_up, outbox, send_mail, signup


async def test_time_stands_still_until_it_is_moved() -> None:
    async with testing.run(app, start=MIDNIGHT) as jobs:
        assert jobs.now == MIDNIGHT
        await send_mail.options(delay=1).submit("ann")
        await jobs.drain()
        assert jobs.now == MIDNIGHT
        assert outbox == []
        await jobs.advance(seconds=1)
        assert jobs.now == MIDNIGHT + timedelta(seconds=1)
        assert len(outbox) == 1


async def test_time_is_given_in_any_of_the_usual_ways() -> None:
    async with testing.run(app, start=MIDNIGHT, cron=False) as jobs:
        await jobs.advance(days=1, hours=1, minutes=1, seconds=1)
        await jobs.advance(0.5)
        await jobs.advance(timedelta(milliseconds=500))
        assert jobs.now == MIDNIGHT + timedelta(days=1, hours=1, minutes=1, seconds=2)
        for wrong in (0, -1):
            with pytest.raises(UsageError, match=r"time only goes on; write: jobs.advance\(hours=1\)"):
                await jobs.advance(seconds=wrong)


async def test_a_run_at_made_from_the_real_time_comes_when_it_should() -> None:
    async with testing.run(app, cron=False) as jobs:
        await send_mail.options(run_at=datetime.now(UTC) + timedelta(hours=1)).submit("ann")
        await jobs.advance(minutes=59)
        assert outbox == []
        await jobs.advance(minutes=1)
        assert len(outbox) == 1


async def test_what_is_to_be_done_now_is_done_before_time_passes() -> None:
    async with testing.run(app, cron=False) as jobs:
        await signup("ann@example.org")
        drained = await jobs.advance(days=1)
        assert [subject for _, subject in outbox] == ["Welcome", "How is it?"]
        assert len(drained.ran) == 2


async def test_every_retry_has_its_turn_at_its_exact_time() -> None:
    """STAGE-1. No jitter: a test says the same whenever it runs."""
    async with testing.run(app, start=MIDNIGHT) as jobs:
        handle = await charge.submit(7, failures=2)
        await jobs.drain(raise_failures=False)
        assert (await handle.job()).due_at == MIDNIGHT + timedelta(seconds=1)
        await jobs.advance(seconds=1, raise_failures=False)
        assert (await handle.job()).due_at == MIDNIGHT + timedelta(seconds=3)
        await jobs.advance(seconds=2)
        assert outbox == [7]
        assert [a.started_at for a in await app.attempts(handle)] == [MIDNIGHT, MIDNIGHT + timedelta(seconds=1)]


async def test_jobs_meet_their_times_in_order() -> None:
    """STAGE-1: the retry, due after one second, comes before what is due after two, and may submit in between."""
    async with testing.run(app, start=MIDNIGHT, cron=False) as jobs:
        await send_mail.options(delay=2).submit("second")
        await charge.submit(1, failures=1)
        await jobs.advance(minutes=1)
        assert outbox == [1, ("second", "Hello")]


async def test_backoff_without_delay_is_over_at_once() -> None:
    async with testing.run(app, start=MIDNIGHT) as jobs:
        await charge.options(retry=Retry(max_attempts=3, initial_delay=0)).submit(1, failures=2)
        await jobs.drain()
        assert outbox == [1]
        assert jobs.now == MIDNIGHT


async def test_a_lifetime_that_ends_fails_the_test() -> None:
    async with testing.run(app, cron=False) as jobs:
        await app.pause("mails")
        handle = await send_mail.options(lifetime=3600).submit("ann")
        await jobs.advance(minutes=59)
        with pytest.raises(testing.HandlerFailed, match=r"send_mail\(to='ann'\) ended DEAD_LETTER after 0 attempts"):
            await jobs.advance(minutes=1)
        assert (await handle.job()).state is State.DEAD_LETTER


async def test_a_lifetime_ends_at_its_own_time_however_far_time_goes() -> None:
    """STAGE-1"""
    async with testing.run(app, start=MIDNIGHT, cron=False) as jobs:
        await app.pause("mails")
        handle = await send_mail.options(lifetime=3600).submit("ann")
        await jobs.advance(days=1, raise_failures=False)
        assert (await handle.job()).completed_at == MIDNIGHT + timedelta(hours=1)


async def test_a_failure_is_told_although_retention_has_removed_the_job() -> None:
    """STAGE-2"""
    async with testing.run(app, cron=False) as jobs:
        handle = await charge.submit(7)
        with pytest.raises(testing.HandlerFailed, match="DEAD_LETTER after 3 attempts"):
            await jobs.advance(days=60)
        with pytest.raises(JobNotFound):
            await handle.job()
        jobs.assert_submitted_once(charge, 7)


# periodic jobs


async def test_a_periodic_job_fires_at_each_of_its_slots() -> None:
    async with testing.run(app, start=MIDNIGHT + timedelta(minutes=2)) as jobs:
        await jobs.drain()
        assert outbox == []
        drained = await jobs.advance(minutes=13)
        assert outbox == ["cleaned"] * 3
        slots = [MIDNIGHT + timedelta(minutes=5 * number) for number in (1, 2, 3)]
        assert [job.started_at for job in drained.ran] == slots
        jobs.assert_submitted(clean_up, times=3)


async def test_slots_that_were_missed_fire_once() -> None:
    """What a worker does that comes back after an outage: the clock moves, and nobody is there."""
    async with testing.run(app, start=MIDNIGHT) as jobs:
        jobs.clock.advance(3600)
        assert outbox == []
        await jobs.drain()
        assert outbox == ["cleaned"]


async def test_periodic_jobs_can_be_left_out() -> None:
    async with testing.run(app, cron=False) as jobs:
        await jobs.advance(days=1)
        assert outbox == []


async def test_a_walk_through_too_many_slots_is_stopped() -> None:
    ticking = Holdfast(shop.URL)

    @ticking.cron("* * * * * *")
    async def tick() -> None: ...

    async with testing.run(ticking, max_jobs=100) as jobs:
        with pytest.raises(UsageError, match=r"time has stopped 100 times .*jobs.clock.advance\(seconds\)"):
            await jobs.advance(hours=1)


# arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": datetime(2030, 1, 1)}, r"has no time zone; write datetime\(…, tzinfo=UTC\)"),  # noqa: DTZ001
        ({"concurrency": 0}, "from 1 up"),
        ({"max_jobs": 0}, "from 1 up"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        testing.run(app, **arguments)


def test_only_an_app_can_be_tested() -> None:
    with pytest.raises(UsageError, match=r"testing.run\(\) takes the app, a Holdfast, and not <job type send_mail>"):
        testing.run(send_mail)  # type: ignore[arg-type]
