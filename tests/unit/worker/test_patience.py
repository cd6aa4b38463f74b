"""What is said of a store that is away: at once, less and less often, and when it is back."""

import logging

import pytest

from holdfast.core.errors import Unavailable
from holdfast.worker.patience import Outage, Patience

WORKS = ("heartbeat", "tick", "claim", "wait for jobs", "settle")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    clock = Clock()
    monkeypatch.setattr("holdfast.worker.patience.time", clock)
    caplog.set_level(logging.INFO, logger="holdfast.worker")
    return clock


def fail_for(outage: Outage, clock: Clock, seconds: float) -> None:
    """Everything fails twice a second."""
    for _ in range(round(2 * seconds)):
        for work in WORKS:
            outage.note_failure(work, Unavailable("connection refused"))
        clock.now += 0.5


def test_an_outage_is_a_handful_of_lines(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    fail_for(outage, clock, 200)
    for work in WORKS:
        outage.note_success(work)
    assert caplog.messages == [
        "heartbeat: trying again: connection refused",
        "heartbeat: trying again (for 5 s): connection refused",
        "heartbeat: trying again (for 30 s): connection refused",
        "heartbeat: trying again (for 60 s): connection refused",
        "heartbeat: trying again (for 120 s): connection refused",
        "heartbeat: trying again (for 180 s): connection refused",
        "the store is back after 200.0 s",
    ]


def test_the_next_outage_is_said_at_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    for _ in range(2):
        fail_for(outage, clock, 1)
        for work in WORKS:
            outage.note_success(work)
    assert [message.partition(" ")[0] for message in caplog.messages] == ["heartbeat:", "the"] * 2


def test_what_was_given_up_does_not_keep_an_outage_alive(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    outage.note_failure("checkpoint", Unavailable("connection refused"))
    clock.now += 100
    fail_for(outage, clock, 1)
    for work in WORKS:
        outage.note_success(work)
    assert caplog.messages[-1] == "the store is back after 1.0 s"


async def test_an_error_that_no_store_should_raise_is_never_hidden_behind_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage()
    outage.note_failure("claim", Unavailable("connection refused"))
    await Patience("tick", outage).wait(TypeError("a bug"))
    assert caplog.messages[-1] == "tick: trying again after an error"
    assert "a bug" in caplog.text
