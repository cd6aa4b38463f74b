"""The number of lanes is the one that was faster (LANE-1, LANE-2)."""

from holdfast.engine.lanes import FIRST_CALLS, MOST_CALLS, TRIAL_CALLS, Lanes

JOBS = 10


class Machine:
    """Its calls take as long as a test says, by the number of lanes; the clock is its own."""

    def __init__(self, *, most: int = 2, seconds: dict[int, float]) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.lanes = Lanes(most, clock=lambda: self.now)
        self.counts: list[int] = []

    def call(self, times: int) -> None:
        for _ in range(times):
            self.counts.append(self.lanes.count)
            self.now += self.seconds[self.lanes.count]
            self.lanes.note_call(JOBS)

    def share_of(self, count: int, *, latest: int) -> float:
        return self.counts[-latest:].count(count) / latest


def test_it_begins_with_all_lanes() -> None:
    machine = Machine(seconds={1: 1.0, 2: 1.0})
    machine.call(FIRST_CALLS)
    assert set(machine.counts) == {2}


def test_one_lane_is_used_where_that_is_faster() -> None:
    machine = Machine(seconds={1: 1.0, 2: 1.2})
    machine.call(FIRST_CALLS + TRIAL_CALLS)
    assert machine.lanes.count == 1
    machine.call(5000)
    assert machine.share_of(1, latest=5000) > 0.9


def test_all_lanes_are_used_where_that_is_faster() -> None:
    machine = Machine(seconds={1: 1.2, 2: 1.0})
    machine.call(10_000)
    assert machine.share_of(2, latest=9000) > 0.9


def test_a_small_difference_changes_nothing() -> None:
    machine = Machine(seconds={1: 1.0, 2: 1.04})
    machine.call(10_000)
    assert machine.share_of(2, latest=9000) > 0.9


def test_what_was_slower_is_tried_again_but_less_often() -> None:
    machine = Machine(seconds={1: 1.2, 2: 1.0})
    machine.call(3 * MOST_CALLS)
    assert 0 < machine.share_of(1, latest=2 * MOST_CALLS) < 0.03
    machine.seconds = {1: 1.0, 2: 1.2}
    machine.call(3 * MOST_CALLS)
    assert machine.lanes.count == 1


def test_with_a_pause_it_begins_anew_with_all_lanes() -> None:
    machine = Machine(seconds={1: 1.0, 2: 1.2})
    for _ in range(20):
        machine.call(FIRST_CALLS - 1)
        machine.now += 1000.0
        machine.lanes.note_pause()
    assert set(machine.counts) == {2}
    machine.call(FIRST_CALLS + 2 * TRIAL_CALLS)
    assert machine.lanes.count == 1
    machine.lanes.note_pause()
    assert machine.lanes.count == 2


def test_a_store_with_one_lane_has_nothing_to_choose() -> None:
    machine = Machine(most=1, seconds={1: 1.0})
    machine.call(5000)
    assert set(machine.counts) == {1}
