"""The watch sees each kind of job that nobody moves, excuses what it must, and accuses nobody else."""

from collections.abc import Iterable
from uuid import UUID, uuid4

import pytest

from chaos import overdue, scale
from chaos.excuses import Circumstances, Excuses
from chaos.overdue import LOOK_SECONDS, MACHINE_SECONDS, SPARE_CLAIMS, Look, Seen, Service, Standing, Watch

TYPES = frozenset({"mine"})
SERVICES = {"worker": Service(types=TYPES, slots=10, limits={"narrow": 1}), "other": Service(types=TYPES, slots=10)}
NOW = 1_000_000.0
LONG_SECONDS = 60.0


class Story:
    """Looks, one after the other. The store's clock goes as the watcher's does, unless a test moves it."""

    def __init__(self) -> None:
        self.watch = Watch(SERVICES)
        self.at = 100.0
        self.ahead = 0.0
        self.worker = uuid4()
        self.is_silent = False
        self.circumstances = Circumstances()

    @property
    def now(self) -> float:
        return NOW + self.at + self.ahead

    def look(self, *jobs: Standing, claims: int = 0, queue: str = "queue", after: float = LOOK_SECONDS) -> None:
        self.at += after
        seen_at = self.now - (10.0 if self.is_silent else 0.0)
        look = Look(
            at=self.at,
            now=self.now,
            jobs=jobs,
            workers=[
                Seen(id=self.worker, name="worker", seen_at=seen_at),
                Seen(id=uuid4(), name="nobody we know", seen_at=self.now),
            ],
            claims={(queue, "mine"): claims},
        )
        self.watch.look(look, self.circumstances)

    def look_on(self, *jobs: Standing, seconds: float = LONG_SECONDS, claims: int = 0, queue: str = "queue") -> None:
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.look(*jobs, claims=claims, queue=queue)

    @property
    def found(self) -> dict[UUID, str]:
        return {one.job_id: one.why for one in self.watch.found}


@pytest.fixture
def story() -> Story:
    return Story()


def job(
    state: str,
    *,
    at: float | None = None,
    place: int | None = None,
    owner: UUID | None = None,
    is_met: bool = False,
    queue: str = "queue",
    version: int = 1,
) -> Standing:
    return Standing(
        job_id=uuid4(),
        type="mine",
        queue=queue,
        state=state,
        version=version,
        at=at,
        place=place,
        owner=owner,
        is_met=is_met,
    )


def busy(owner: UUID, now: float, *, queue: str = "queue", count: int = 10) -> Iterable[Standing]:
    return [job("RUNNING", owner=owner, at=now + 10_000, queue=queue) for _ in range(count)]


# each bound can be broken


def test_a_pending_job_whose_dependencies_have_ended_must_move(story: Story) -> None:
    waits, is_stuck = job("PENDING"), job("PENDING", is_met=True)
    story.look_on(waits, is_stuck)
    assert set(story.found) == {is_stuck.job_id}


@pytest.mark.parametrize("state", ["DELAYED", "RETRYING"])
def test_a_job_that_is_due_must_move(story: Story, state: str) -> None:
    is_due, is_not = job(state, at=story.now + 1), job(state, at=story.now + 10_000)
    story.look_on(is_due, is_not)
    assert set(story.found) == {is_due.job_id}


def test_a_job_that_was_seen_before_it_was_due_has_a_moment_and_a_late_commit_a_sweep(story: Story) -> None:
    seen_before = job("DELAYED", at=story.now + 1)
    for _ in range(8):
        story.look(seen_before)
    late = job("DELAYED", at=story.now - 100)
    moment = overdue.MOMENT_SECONDS + MACHINE_SECONDS + 3 * LOOK_SECONDS
    assert moment < scale.SWEEP_SECONDS + MACHINE_SECONDS
    story.look_on(seen_before, late, seconds=moment)
    assert set(story.found) == {seen_before.job_id}
    story.look_on(seen_before, late)
    assert set(story.found) == {seen_before.job_id, late.job_id}


def test_a_lease_that_is_over_must_be_reclaimed(story: Story) -> None:
    is_over = job("RUNNING", owner=story.worker, at=story.now + 1)
    story.look_on(is_over, *busy(story.worker, story.now))
    assert set(story.found) == {is_over.job_id}


def test_the_lease_of_a_worker_without_a_row_must_be_reclaimed(story: Story) -> None:
    orphan = job("RUNNING", owner=uuid4(), at=story.now + 10_000)
    story.look_on(orphan)
    assert story.found == {orphan.job_id: "RUNNING, its worker is gone"}


@pytest.mark.parametrize("ahead", [-10.0, 3600.0])
def test_the_lease_of_a_silent_worker_must_be_reclaimed(story: Story, ahead: float) -> None:
    """Also of one that was last seen when the clock was ahead of what it is now."""
    silent = uuid4()
    held = job("RUNNING", owner=silent, at=story.now + 10_000)
    for _ in range(round(LONG_SECONDS / LOOK_SECONDS)):
        story.at += LOOK_SECONDS
        workers = [
            Seen(id=silent, name="worker", seen_at=story.now + ahead),
            Seen(id=uuid4(), name="other", seen_at=story.now),
        ]
        story.watch.look(Look(at=story.at, now=story.now, jobs=[held], workers=workers), Circumstances())
    assert story.found == {held.job_id: "RUNNING, its worker is silent"}


def test_a_scheduled_job_that_others_overtake_must_be_claimed(story: Story) -> None:
    behind = job("SCHEDULED", place=1)
    story.look_on(behind, *busy(story.worker, story.now), claims=SPARE_CLAIMS)
    assert story.found == {behind.job_id: "SCHEDULED, overtaken by others of its kind"}


def test_a_scheduled_job_must_be_claimed_while_a_worker_has_room(story: Story) -> None:
    waits = job("SCHEDULED", place=1)
    story.look_on(waits)
    assert story.found == {waits.job_id: "SCHEDULED, while a worker has room for it"}


# nobody is accused who is not late


def test_what_moves_in_time_is_not_overdue(story: Story) -> None:
    for number in range(50):
        is_due = job("RETRYING", at=story.now)
        story.look(is_due)
        story.look(is_due, job("SCHEDULED", place=number))
    assert story.found == {}


def test_a_job_behind_others_waits_for_its_turn(story: Story) -> None:
    queue = [job("SCHEDULED", place=number) for number in range(2000)]
    for number in range(0, 2000, 20):
        story.look(*queue[number:], *busy(story.worker, story.now), claims=20)
    assert story.found == {}


def test_a_line_that_a_crash_has_put_back_in_front_overtakes_nobody(story: Story) -> None:
    """The store forgot their claims, and they are claimed once more."""
    front = [job("SCHEDULED", place=number) for number in range(2 * SPARE_CLAIMS)]
    last = job("SCHEDULED", place=1000)
    story.look(*front, last)
    for _ in range(2):
        story.look(last, *busy(story.worker, story.now), claims=len(front))
        story.look(*front, last)
    story.look_on(last, *busy(story.worker, story.now))
    assert story.found == {}


def test_whoever_stands_in_a_line_that_moves_waits_for_its_turn(story: Story) -> None:
    """Where a queue is limited, jobs leave it one by one, and at many looks there is room for another."""
    queue = [job("SCHEDULED", place=number) for number in range(200)]
    for number in range(200):
        story.look(*queue[number:], claims=1)
    assert story.found == {}


def test_a_line_that_moves_excuses_nobody_in_front_of_it(story: Story) -> None:
    waits, *others = [job("SCHEDULED", place=number) for number in range(SPARE_CLAIMS)]
    for number in range(SPARE_CLAIMS - 1):
        story.look(waits, *others[number:], claims=1)
    assert story.found == {waits.job_id: "SCHEDULED, while a worker has room for it"}


def test_claims_of_another_queue_overtake_nobody(story: Story) -> None:
    waits = job("SCHEDULED", place=1)
    story.look_on(waits, *busy(story.worker, story.now), claims=SPARE_CLAIMS, queue="another")
    assert story.found == {}


def test_a_worker_that_runs_as_many_of_a_queue_as_it_may_has_no_room_for_it(story: Story) -> None:
    waits = job("SCHEDULED", place=1, queue="narrow")
    story.look_on(waits, *busy(story.worker, story.now, queue="narrow", count=1))
    assert story.found == {}


def test_nobody_is_late_where_nobody_could_do_anything(story: Story) -> None:
    story.is_silent = True
    story.look_on(job("SCHEDULED", place=1), job("RETRYING", at=story.now + 1), job("PENDING", is_met=True))
    assert story.found == {}


# excuses


def test_a_locked_row_excuses_its_own_job_alone_and_while_it_is_locked(story: Story) -> None:
    locked, neighbour = job("SCHEDULED", place=1), job("SCHEDULED", place=2)
    story.circumstances = Circumstances(locked=frozenset({locked.job_id}))
    story.look_on(locked, neighbour)
    assert set(story.found) == {neighbour.job_id}
    story.circumstances = Circumstances()
    story.look_on(locked)
    assert set(story.found) == {locked.job_id, neighbour.job_id}


def test_an_impaired_worker_is_nobody_who_could_claim(story: Story) -> None:
    waits = job("SCHEDULED", place=1)
    story.circumstances = Circumstances(impaired=frozenset({"worker"}))
    story.look_on(waits)
    assert story.found == {}


@pytest.mark.parametrize("what", ["outage", "gap", "jump"])
def test_after_an_outage_everybody_has_one_worker_timeout_more(story: Story, what: str) -> None:
    waits = job("SCHEDULED", place=1)
    bound = scale.POLL_SECONDS + overdue.MOMENT_SECONDS + MACHINE_SECONDS
    story.look_on(waits, seconds=bound - 2 * LOOK_SECONDS)
    if what == "outage":
        story.circumstances = Circumstances(away_until=story.at)
    if what == "jump":
        story.ahead = 5 * 3600
    story.look(waits, after=overdue.GAP_SECONDS + 1 if what == "gap" else LOOK_SECONDS)
    story.look_on(waits, seconds=scale.WORKER_TIMEOUT_SECONDS + bound - 4 * LOOK_SECONDS)
    assert story.found == {}
    story.look_on(waits, seconds=bound)
    assert set(story.found) == {waits.job_id}


def test_excuses_end_when_their_fault_does_and_hang_on_for_as_long_as_a_statement_may() -> None:
    at = 100.0
    excuses, job_id = Excuses(lambda: at), uuid4()
    with excuses.away(), excuses.locked([job_id]), excuses.impaired("worker"):
        at = 105.0
        assert excuses.now() == Circumstances(
            away_until=105.0, locked=frozenset({job_id}), impaired=frozenset({"worker"})
        )
    at = 106.0
    assert excuses.now() == Circumstances(away_until=105.0, impaired=frozenset({"worker"}))
    at = 106.0 + scale.COMMAND_SECONDS
    assert excuses.now() == Circumstances(away_until=105.0)
