"""The roster: ROSTER-1, ROSTER-2, on a clock that stands still."""

import pytest

from holdfast.designs.services.roster import ON_ITS_WAY_SECONDS, Roster
from tests.unit.designs.services.parts import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roster(clock: Clock) -> Roster:
    roster = Roster(stopwatch=clock.stopwatch)
    roster.heartbeat("w", holding=[])
    return roster


def test_a_worker_lives_for_4000_ms_after_its_last_heartbeat(roster: Roster, clock: Clock) -> None:
    clock.advance(3.999)
    assert roster.is_alive("w")
    assert roster.expire() == {}
    clock.advance(0.001)
    assert not roster.is_alive("w")
    roster.heartbeat("w", holding=[])
    assert roster.is_alive("w")


def test_after_a_pause_of_our_own_a_worker_has_its_4000_ms_again(roster: Roster, clock: Clock) -> None:
    began = roster.now()
    clock.advance(60)
    roster.forgive_pause(since=began)
    assert roster.expire() == {}
    for _ in range(2):
        began = roster.now()
        clock.advance(2)
        roster.forgive_pause(since=began)
    assert roster.expire() == {"w": []}


def test_the_jobs_of_a_silent_worker_are_lost_and_taken_once(roster: Roster, clock: Clock) -> None:
    """ROSTER-1."""
    roster.hand_out("a", "w")
    roster.hand_out("b", "w")
    clock.advance(4)
    assert roster.expire() == {"w": ["a", "b"]}
    assert roster.expire() == {}
    taken = [roster.take_lost(), roster.take_lost(), roster.take_lost()]
    assert [lost and lost.job_id for lost in taken] == ["a", "b", None]


def test_a_job_is_exhausted_when_it_was_lost_for_the_fourth_time(roster: Roster, clock: Clock) -> None:
    """ROSTER-2."""
    for handed_out in range(1, 5):
        roster.heartbeat("w", holding=None)
        roster.hand_out("a", "w")
        clock.advance(4)
        roster.expire()
        lost = roster.take_lost(is_exhausted=handed_out == 4)
        assert lost is not None
        assert lost.deliveries == handed_out
        assert lost.is_exhausted == (handed_out == 4)


def test_the_count_is_forgotten_when_the_job_has_ended(roster: Roster, clock: Clock) -> None:
    """ROSTER-2."""
    roster.hand_out("a", "w")
    roster.end("a")
    clock.advance(4)
    assert roster.expire() == {"w": []}
    assert roster.take_lost() is None
    assert roster._deliveries == {}


def test_a_job_that_its_worker_does_not_name_is_lost_once_it_cannot_be_on_its_way(roster: Roster, clock: Clock) -> None:
    roster.hand_out("a", "w")
    roster.hand_out("b", "w")
    clock.advance(ON_ITS_WAY_SECONDS)
    roster.heartbeat("w", holding=["b"])
    assert roster.take_lost() is None
    clock.advance(0.1)
    roster.heartbeat("w", holding=["b"])
    assert roster._holders.get("b") == "w"
    lost = roster.take_lost()
    assert lost is not None
    assert lost.job_id == "a"


def test_a_worker_that_does_not_say_what_it_has_loses_nothing(roster: Roster, clock: Clock) -> None:
    roster.hand_out("a", "w")
    for _ in range(5):
        clock.advance(3)
        roster.heartbeat("w", holding=None)
    assert roster._holders.get("a") == "w"


def test_what_a_worker_names_and_nobody_has_is_its_own(roster: Roster, clock: Clock) -> None:
    """After a restart of the coordinator."""
    roster.heartbeat("w", holding=["a"])
    assert roster._holders.get("a") == "w"
    clock.advance(4)
    assert roster.expire() == {"w": ["a"]}


def test_a_worker_that_was_only_slow_has_its_jobs_back_unless_they_are_anothers(roster: Roster, clock: Clock) -> None:
    roster.hand_out("a", "w")
    roster.hand_out("b", "w")
    clock.advance(4)
    roster.expire()
    roster.heartbeat("other", holding=[])
    lost = roster.take_lost()
    assert lost is not None
    roster.hand_out(lost.job_id, "other")
    roster.heartbeat("w", holding=["a", "b"])
    assert (roster._holders.get("a"), roster._holders.get("b")) == ("other", "w")
    assert roster.take_lost() is None


def test_a_job_that_is_handed_to_a_worker_which_was_lost_meanwhile_is_lost_too(roster: Roster, clock: Clock) -> None:
    clock.advance(4)
    roster.expire()
    roster.hand_out("a", "w")
    lost = roster.take_lost()
    assert lost is not None
    assert (lost.job_id, lost.deliveries) == ("a", 1)
