"""When a worker's process counts as dead. PRESENCE-1, PRESENCE-2."""

from uuid import uuid4

from holdfast.core.presence import Absences

TIMEOUT = 18.0
WINDOW = 3.0
WORKER = uuid4()


def watching(counts_from: float = 0.0) -> Absences:
    return Absences(worker_timeout_seconds=TIMEOUT, counts_from=counts_from)


def test_a_proof_that_is_away_at_every_look_for_the_whole_time_makes_its_worker_dead() -> None:
    absences = watching()
    assert [absences.saw([WORKER], monotonic=float(n)) for n in range(5)] == [[], [], [], [WORKER], [WORKER]]


def test_a_proof_that_comes_back_in_time_counts_from_the_beginning() -> None:
    absences = watching()
    absences.saw([WORKER], monotonic=0.0)
    absences.saw([WORKER], monotonic=2.0)
    assert absences.saw([], monotonic=2.5) == []
    assert absences.saw([WORKER], monotonic=3.5) == []
    assert absences.saw([WORKER], monotonic=5.0) == []
    assert absences.saw([WORKER], monotonic=6.5) == [WORKER]


def test_a_watcher_that_did_not_look_for_long_begins_again() -> None:
    absences = watching()
    absences.saw([WORKER], monotonic=0.0)
    assert absences.saw([WORKER], monotonic=WINDOW + 1.0) == []
    assert absences.saw([WORKER], monotonic=2 * WINDOW + 1.0) == [WORKER]


def test_after_a_broken_session_nothing_counts_before_its_time() -> None:
    absences = watching(counts_from=TIMEOUT)
    looks = {float(n): absences.saw([WORKER], monotonic=float(n)) for n in range(22)}
    assert [moment for moment, dead in looks.items() if dead] == [21.0]


def test_workers_are_told_apart() -> None:
    other = uuid4()
    absences = watching()
    absences.saw([WORKER], monotonic=0.0)
    absences.saw([WORKER, other], monotonic=2.0)
    assert absences.saw([WORKER, other], monotonic=3.0) == [WORKER]


def test_it_looks_often_while_a_proof_is_away_and_seldom_while_there_is_nobody_else() -> None:
    absences = watching()
    absences.saw([], monotonic=0.0)
    alone, usual = absences.seconds_until_look(is_alone=True), absences.seconds_until_look(is_alone=False)
    absences.saw([WORKER], monotonic=1.0)
    suspicious = absences.seconds_until_look(is_alone=True)
    assert suspicious < WINDOW / 2 < usual < alone
