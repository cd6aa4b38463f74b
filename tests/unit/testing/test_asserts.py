"""The asserts, and what they say when they fail."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from holdfast import Holdfast, Priority, UsageError, testing
from tests.unit.testing import shop
from tests.unit.testing.conftest import MIDNIGHT
from tests.unit.testing.shop import Parcel, app, order, repeat, send_mail, ship


@pytest.fixture
async def jobs() -> AsyncIterator[testing.Jobs]:
    async with testing.run(app, start=MIDNIGHT) as jobs:
        yield jobs


def failure(assertion: Any, *args: Any, **parameters: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **parameters)
    return str(caught.value)


# what holds


async def test_a_submit_is_found_by_the_parameters_that_are_named(jobs: testing.Jobs) -> None:
    """ASSERT-1"""
    await send_mail.submit("ann", subject="Welcome")
    jobs.assert_submitted(send_mail)
    jobs.assert_submitted_once(send_mail, to="ann")
    jobs.assert_submitted_once(send_mail, "ann", subject="Welcome")
    jobs.assert_submitted_once(send_mail.options(queue="other"), "ann")
    jobs.assert_submitted_once("send_mail", to="ann")
    jobs.assert_not_submitted(send_mail, to="bob")
    jobs.assert_not_submitted(ship)


async def test_a_default_counts_as_given(jobs: testing.Jobs) -> None:
    """ASSERT-1"""
    await send_mail.submit("ann")
    jobs.assert_submitted_once(send_mail, to="ann", subject="Hello")


async def test_how_often_is_counted(jobs: testing.Jobs) -> None:
    await app.submit_many([send_mail.call("ann"), send_mail.call("ann"), send_mail.call("bob")])
    jobs.assert_submitted(send_mail, times=3)
    jobs.assert_submitted(send_mail, times=2, to="ann")
    jobs.assert_submitted(send_mail, times=0, to="zoe")


async def test_values_are_compared_as_the_handler_would_get_them(jobs: testing.Jobs) -> None:
    await ship.submit(Parcel(2.5, to="work"), at=MIDNIGHT, stops=["a", "b"])
    jobs.assert_submitted_once(ship, Parcel(2.5, "work"))
    jobs.assert_submitted_once(ship, at=MIDNIGHT)
    jobs.assert_submitted_once(ship, parcel=ANY, stops=ANY)
    # What is written in the same way is the same.
    jobs.assert_submitted_once(ship, {"weight": 2.5, "to": "work"}, stops=("a", "b"))
    jobs.assert_not_submitted(ship, object())


async def test_a_duplicate_and_a_refused_submit_are_none(jobs: testing.Jobs) -> None:
    await send_mail.options(key="order-7").submit("ann")
    await send_mail.options(key="order-7").submit("ann")
    with pytest.raises(UsageError):
        await send_mail.options(run_at=MIDNIGHT + timedelta(days=30)).submit("ann")
    jobs.assert_submitted_once(send_mail)


async def test_a_submit_that_is_repeated_is_one(jobs: testing.Jobs) -> None:
    """As a client does whose answer was lost: with the same ID."""
    call = send_mail.call("ann")
    await app.submit_many([call])
    await app.submit_many([call])
    jobs.assert_submitted_once(send_mail)


async def test_what_jobs_spawn_counts(jobs: testing.Jobs) -> None:
    await order.submit(2)
    await jobs.drain()
    jobs.assert_submitted(send_mail, times=2)
    (first, _) = jobs.submitted(send_mail)
    assert first.job.spawned_by == jobs.submitted(order)[0].id


async def test_what_was_submitted_can_be_looked_at(jobs: testing.Jobs) -> None:
    handle = await send_mail.options(delay=60, priority=Priority.HIGH, tags={"a": "b"}).submit("ann")
    await app.submit("of another program", {"x": 1})
    mail, other = jobs.submitted()
    assert (mail.id, mail.type, str(mail)) == (handle.id, "send_mail", "send_mail(to='ann')")
    assert mail.parameters == {"to": "ann", "subject": "Hello"}
    assert (mail.job.queue, mail.job.priority, mail.job.tags) == ("mails", Priority.HIGH, {"a": "b"})
    assert mail.job.due_at == MIDNIGHT + timedelta(seconds=60)
    assert other.parameters == {"x": 1}
    jobs.assert_submitted_once("of another program", x=1)
    assert jobs.submitted(send_mail, to="bob") == []
    # What is found can be asked for.
    assert (await app.get(mail)).id == handle.id


async def test_a_submit_in_the_callers_transaction_is_accepted_at_once(jobs: testing.Jobs) -> None:
    session = object()
    await send_mail.options(connection=session).submit("ann")
    (mail,) = jobs.submitted(send_mail)
    assert mail.connection is session
    await jobs.drain()
    assert len(shop.outbox) == 1


# what does not


async def test_nothing_at_all_was_submitted(jobs: testing.Jobs) -> None:
    assert failure(jobs.assert_submitted, send_mail) == "send_mail was not submitted\nnothing was submitted at all"
    jobs.assert_not_submitted()


async def test_something_else_was_submitted(jobs: testing.Jobs) -> None:
    await order.submit(2)
    assert failure(jobs.assert_submitted_once, send_mail, to="ann") == (
        "send_mail(to='ann') was not submitted\nother jobs that were submitted:\n  order(items=2)"
    )


async def test_it_was_submitted_with_other_parameters(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann", subject="Welcome")
    await send_mail.submit("bob")
    assert failure(jobs.assert_submitted_once, send_mail, to="ann", subject="Hello") == (
        "send_mail(to='ann', subject='Hello') was not submitted\n"
        "with other parameters, send_mail was submitted 2 times:\n"
        "  send_mail(to='ann', subject='Welcome')\n"
        "      subject: expected  'Hello'\n"
        "               submitted 'Welcome'\n"
        "  send_mail(to='bob')\n"
        "      to: expected  'ann'\n"
        "          submitted 'bob'"
    )


async def test_a_long_value_is_shown_as_a_difference(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann", subject="Dear Ann\nwelcome\nYours")
    text = failure(jobs.assert_submitted, send_mail, subject="Dear Ann\nWelcome\nYours")
    assert text.endswith(
        "      subject: - expected, + submitted\n"
        "        @@ -1,3 +1,3 @@\n"
        "         Dear Ann\n"
        "        -Welcome\n"
        "        +welcome\n"
        "         Yours"
    )


async def test_a_structured_value_is_shown_as_a_difference(jobs: testing.Jobs) -> None:
    stops = [f"station number {number}" for number in range(12)]
    await ship.submit(Parcel(1), stops=stops)
    text = failure(jobs.assert_submitted, ship, stops=[*stops[:5], "elsewhere", *stops[6:]])
    assert "        - 'elsewhere',\n" in text
    assert "        + 'station number 5',\n" in text


async def test_a_difference_is_bounded(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann", subject="\n".join(map(str, range(1000))))
    text = failure(jobs.assert_submitted, send_mail, subject="\n".join(map(str, range(1000, 2000))))
    assert "… 1941 lines more" in text
    assert len(text) < 5000


async def test_it_was_submitted_too_often(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann")
    await send_mail.submit("ann", subject="Again")
    await send_mail.submit("bob")
    assert failure(jobs.assert_submitted_once, send_mail, to="ann") == (
        "send_mail(to='ann') was submitted 2 times, and not 1 time\n"
        "  send_mail(to='ann')\n"
        "  send_mail(to='ann', subject='Again')\n"
        "with other parameters, send_mail was submitted 1 time:\n"
        "  send_mail(to='bob')\n"
        "      to: expected  'ann'\n"
        "          submitted 'bob'"
    )


async def test_it_was_not_submitted_often_enough(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann")
    text = failure(jobs.assert_submitted, send_mail, times=2)
    assert text == "send_mail was submitted 1 time, and not 2 times\n  send_mail(to='ann')"


async def test_it_should_not_have_been_submitted(jobs: testing.Jobs) -> None:
    await send_mail.submit("ann")
    assert failure(jobs.assert_not_submitted, send_mail, to="ann") == (
        "send_mail(to='ann') was submitted 1 time, and should not have been:\n  send_mail(to='ann')"
    )
    assert failure(jobs.assert_not_submitted) == (
        "a job was submitted 1 time, and should not have been:\n  send_mail(to='ann')"
    )


async def test_a_long_list_is_cut(jobs: testing.Jobs) -> None:
    await app.submit_many([send_mail.call(str(number)) for number in range(50)])
    text = failure(jobs.assert_not_submitted, send_mail)
    assert text.endswith("  send_mail(to='19')\n  … and 30 more")


async def test_bytes_and_long_parameters_are_shown_in_short(jobs: testing.Jobs) -> None:
    from holdfast.core.payload import Payload

    await app.submit("raw", Payload.of_bytes(b"abc"))
    await send_mail.submit("x" * 1000)
    text = failure(jobs.assert_not_submitted)
    assert "raw(payload=b'abc')" in text
    assert len(text) < 600


# mistakes of the test


async def test_a_parameter_that_does_not_exist_never_passes(jobs: testing.Jobs) -> None:
    """ASSERT-2"""
    for assertion in (jobs.assert_submitted, jobs.assert_submitted_once, jobs.assert_not_submitted, jobs.submitted):
        with pytest.raises(UsageError, match="'send_mail' has no parameter 'too'; it has: to, subject"):
            assertion(send_mail, too="ann")
        with pytest.raises(UsageError, match="'send_mail' has fewer parameters than are given here"):
            assertion(send_mail, "ann", to="ann")
        with pytest.raises(UsageError, match="'send_mail' has fewer parameters than are given here"):
            assertion(send_mail, "ann", "Hello", "more")
    with pytest.raises(UsageError, match="parameters belong to a job type"):
        jobs.submitted(None, to="ann")
    with pytest.raises(UsageError, match="'unknown' is not a function of this app; give its parameters by name"):
        jobs.submitted("unknown", 1)


async def test_what_is_no_job_type_of_this_app_is_refused(jobs: testing.Jobs) -> None:
    other = Holdfast("memory://")

    @other.job(name="send_mail")
    async def send(to: str) -> None: ...

    with pytest.raises(UsageError, match="'send_mail' belongs to another app than the one under test"):
        jobs.assert_not_submitted(send)
    with pytest.raises(UsageError, match=r"signup.* is not a job type; give what @app.job made, or its name"):
        jobs.assert_not_submitted(shop.signup)  # type: ignore[arg-type]


async def test_a_parameter_called_times_is_not_taken_for_a_number_of_submits(jobs: testing.Jobs) -> None:
    await repeat.submit(3)
    with pytest.raises(UsageError, match=r"'repeat' has a parameter called times.*assert len\(jobs.submitted\(repeat"):
        jobs.assert_submitted(repeat, times=3)
    jobs.assert_submitted_once(repeat, times=3)
    assert len(jobs.submitted(repeat, times=3)) == 1
