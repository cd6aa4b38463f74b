"""The registry: REGISTRY-1, REGISTRY-2, on a clock that stands still."""

import pytest

from holdfast.designs.services.registry import ON_ITS_WAY_SECONDS, Registry
from tests.unit.designs.services.parts import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> Registry:
    registry = Registry(stopwatch=clock.stopwatch)
    registry.heartbeat("w", holding=[])
    return registry


def test_a_worker_lives_for_4000_ms_after_its_last_heartbeat(registry: Registry, clock: Clock) -> None:
    clock.advance(3.999)
    assert registry.is_alive("w")
    assert registry.expire() == {}
    clock.advance(0.001)
    assert not registry.is_alive("w")
    registry.heartbeat("w", holding=[])
    assert registry.is_alive("w")


def test_after_a_pause_of_our_own_a_worker_has_its_4000_ms_again(registry: Registry, clock: Clock) -> None:
    began = registry.now()
    clock.advance(60)
    registry.forgive_pause(since=began)
    assert registry.expire() == {}
    for _ in range(2):
        began = registry.now()
        clock.advance(2)
        registry.forgive_pause(since=began)
    assert registry.expire() == {"w": []}


def test_g1_the_jobs_of_a_silent_worker_are_lost_and_taken_once(registry: Registry, clock: Clock) -> None:
    registry.hand_out("a", "w")
    registry.hand_out("b", "w")
    clock.advance(4)
    assert registry.expire() == {"w": ["a", "b"]}
    assert registry.expire() == {}
    taken = [registry.take_lost(), registry.take_lost(), registry.take_lost()]
    assert [lost and lost.job_id for lost in taken] == ["a", "b", None]


def test_g2_a_job_is_exhausted_when_it_was_lost_for_the_fourth_time(registry: Registry, clock: Clock) -> None:
    for handed_out in range(1, 5):
        registry.heartbeat("w", holding=None)
        registry.hand_out("a", "w")
        clock.advance(4)
        registry.expire()
        lost = registry.take_lost(is_exhausted=handed_out == 4)
        assert lost is not None
        assert lost.deliveries == handed_out
        assert lost.is_exhausted == (handed_out == 4)


def test_g2_the_count_is_forgotten_when_the_job_has_ended(registry: Registry, clock: Clock) -> None:
    registry.hand_out("a", "w")
    registry.end("a")
    clock.advance(4)
    assert registry.expire() == {"w": []}
    assert registry.take_lost() is None
    assert registry._deliveries == {}


def test_a_job_that_its_worker_does_not_name_is_lost_once_it_cannot_be_on_its_way(
    registry: Registry, clock: Clock
) -> None:
    registry.hand_out("a", "w")
    registry.hand_out("b", "w")
    clock.advance(ON_ITS_WAY_SECONDS)
    registry.heartbeat("w", holding=["b"])
    assert registry.take_lost() is None
    clock.advance(0.1)
    registry.heartbeat("w", holding=["b"])
    assert registry._holders.get("b") == "w"
    lost = registry.take_lost()
    assert lost is not None
    assert lost.job_id == "a"


def test_a_worker_that_does_not_say_what_it_has_loses_nothing(registry: Registry, clock: Clock) -> None:
    registry.hand_out("a", "w")
    for _ in range(5):
        clock.advance(3)
        registry.heartbeat("w", holding=None)
    assert registry._holders.get("a") == "w"


def test_what_a_worker_names_and_nobody_has_is_its_own(registry: Registry, clock: Clock) -> None:
    """After a restart of the coordinator."""
    registry.heartbeat("w", holding=["a"])
    assert registry._holders.get("a") == "w"
    clock.advance(4)
    assert registry.expire() == {"w": ["a"]}


def test_a_worker_that_was_only_slow_has_its_jobs_back_unless_they_are_anothers(
    registry: Registry, clock: Clock
) -> None:
    registry.hand_out("a", "w")
    registry.hand_out("b", "w")
    clock.advance(4)
    registry.expire()
    registry.heartbeat("other", holding=[])
    lost = registry.take_lost()
    assert lost is not None
    registry.hand_out(lost.job_id, "other")
    registry.heartbeat("w", holding=["a", "b"])
    assert (registry._holders.get("a"), registry._holders.get("b")) == ("other", "w")
    assert registry.take_lost() is None


def test_a_job_that_is_handed_to_a_worker_which_was_lost_meanwhile_is_lost_too(
    registry: Registry, clock: Clock
) -> None:
    clock.advance(4)
    registry.expire()
    registry.hand_out("a", "w")
    lost = registry.take_lost()
    assert lost is not None
    assert (lost.job_id, lost.deliveries) == ("a", 1)
