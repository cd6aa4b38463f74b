"""Every count of the checker can go red, and none does without a cause."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from chaos.checker import CRASHED, FORGOTTEN_CLAIM, FORGOTTEN_OUTCOME, HANDED_BACK, REQUIRED, check
from chaos.history import (
    Answer,
    Audit,
    Cancel,
    Edge,
    Failover,
    Group,
    History,
    Keyed,
    LeaseEvent,
    Overdue,
    SpentAttempt,
    Stored,
    StoredJob,
    Trouble,
)
from chaos.ledger import Entry, Kind
from chaos.recovery import Recovery


@dataclass
class Story:
    """A run that went well, to be spoilt by a test."""

    groups: list[Group] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    jobs: dict[UUID, StoredJob] = field(default_factory=dict)
    attempts: list[SpentAttempt] = field(default_factory=list)
    audit: list[Audit] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    failovers: list[Failover] = field(default_factory=list)
    keyed: list[Keyed] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)
    overdue: list[Overdue] = field(default_factory=list)
    examination: list[str] = field(default_factory=list)

    def history(self) -> History:
        stored = Stored(jobs=self.jobs, attempts=self.attempts, audit=self.audit, edges=self.edges)
        return History(
            groups=self.groups,
            ledger=self.ledger,
            stored=stored,
            failovers=self.failovers,
            keyed=self.keyed,
            cancels=self.cancels,
            overdue=self.overdue,
            examination=self.examination,
        )

    def found(self) -> set[str]:
        verdict = check(self.history())
        assert verdict.holds == (not any(verdict.found.values()))
        return {name for name in REQUIRED if verdict.count(name)}

    def witness(self, event: LeaseEvent, job_id: UUID, token: UUID | None, said: str | None = None) -> None:
        self.audit.append(Audit(len(self.audit) + 1, event, job_id, token, 1, said))

    def complete(self, *, answer: Answer = Answer.ACKNOWLEDGED, at: float = 10.0) -> tuple[UUID, UUID]:
        """A job from submit to its end; its ID and its token."""
        job_id, token = uuid4(), uuid4()
        self.groups.append(Group((job_id,), answer))
        self.witness(LeaseEvent.BORN, job_id, token)
        self.ledger += [Entry("start", job_id, 1, token), Entry("end", job_id, 1, token)]
        self.witness(LeaseEvent.NOTED, job_id, token, f'"{token}"')
        self.witness(LeaseEvent.DIED, job_id, token)
        self.jobs[job_id] = StoredJob(
            id=job_id,
            max_attempts=3,
            places=("ended",),
            state="COMPLETED",
            attempt=1,
            token=token,
            result=f'"{token}"',
            started_at=at,
            ended_at=at + 1,
        )
        return job_id, token

    def change(self, job_id: UUID, **changes: object) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], **changes)  # type: ignore[arg-type]

    def run_before(self, job_id: UUID, *, code: str = "worker_lost", ends_at: float = 9.0) -> UUID:
        """An earlier attempt of a job that was taken from its holder; its token."""
        token = uuid4()
        first = min(one.number for one in self.audit)
        self.audit += [
            Audit(first - 2, LeaseEvent.BORN, job_id, token, 1),
            Audit(first - 1, LeaseEvent.DIED, job_id, token, 1),
        ]
        self.ledger.insert(0, Entry("start", job_id, 1, token))
        self.attempts.append(
            SpentAttempt(
                job_id=job_id,
                number=1,
                token=token,
                started_at=5.0,
                ended_at=ends_at,
                code=code,
                message="the worker stopped answering",
                is_ended_by_holder=False,
            )
        )
        return token


@pytest.fixture
def story() -> Story:
    story = Story()
    parent, _ = story.complete()
    child, _ = story.complete()
    story.edges.append(Edge(child, parent))
    return story


def test_a_run_that_went_well_is_green(story: Story) -> None:
    verdict = check(story.history())
    assert verdict.holds
    assert verdict.jobs == 2
    assert verdict.answers[Answer.ACKNOWLEDGED] == 2
    assert not verdict.duplicates
    assert verdict.refused == 0


def test_an_acknowledged_job_that_is_gone_is_lost(story: Story) -> None:
    story.groups.append(Group((uuid4(),), Answer.ACKNOWLEDGED))
    assert story.found() == {"lost"}


def test_an_unknown_job_may_be_there_or_not(story: Story) -> None:
    story.groups.append(Group((uuid4(), uuid4()), Answer.UNKNOWN))
    story.complete(answer=Answer.UNKNOWN)
    assert story.found() == set()
    assert check(story.history()).answers[Answer.UNKNOWN] == 3


def test_a_group_that_was_accepted_in_part_is_lost(story: Story) -> None:
    there, _ = story.complete()
    story.groups[-1] = Group((there, uuid4()), Answer.UNKNOWN)
    assert story.found() == {"lost"}


def test_a_rejected_job_must_not_be_there(story: Story) -> None:
    story.groups.append(Group((uuid4(),), Answer.REJECTED))
    assert story.found() == set()
    story.complete(answer=Answer.REJECTED)
    assert story.found() == {"ghosts"}


def test_a_job_completed_without_having_run_is_lost(story: Story) -> None:
    job_id, token = story.complete()
    story.ledger.remove(Entry("end", job_id, 1, token))
    assert story.found() == {"lost"}


def test_the_result_of_another_lease_is_a_stale_write(story: Story) -> None:
    job_id, _ = story.complete()
    story.change(job_id, result=f'"{uuid4()}"')
    assert story.found() == {"stale"}


def test_the_failure_of_another_lease_is_a_stale_write(story: Story) -> None:
    job_id, _ = story.complete()
    token = story.run_before(job_id)
    story.attempts[-1] = replace(story.attempts[-1], message=f"{token} fails as it was told")
    assert story.found() == set()
    story.attempts[-1] = replace(story.attempts[-1], message=f"{uuid4()} fails as it was told")
    assert story.found() == {"stale"}


def test_the_checkpoint_of_another_lease_is_a_stale_write(story: Story) -> None:
    job_id, token = story.complete()
    story.witness(LeaseEvent.BORN, job_id, token)
    story.witness(LeaseEvent.NOTED, job_id, token, f'"{uuid4()}"')
    story.witness(LeaseEvent.DIED, job_id, token)
    assert story.found() == {"stale"}


def test_a_lease_born_while_another_lives_overlaps(story: Story) -> None:
    job_id, _ = story.complete()
    story.audit.append(Audit(0, LeaseEvent.BORN, job_id, uuid4(), 1))
    assert story.found() == {"overlapping"}


def test_an_extension_of_a_lease_that_is_over_overlaps(story: Story) -> None:
    job_id, _ = story.complete()
    story.witness(LeaseEvent.EXTENDED, job_id, uuid4())
    assert story.found() == {"overlapping"}


def test_attempts_whose_times_overlap_by_the_stores_clock_overlap(story: Story) -> None:
    job_id, _ = story.complete(at=10.0)
    story.run_before(job_id, ends_at=10.0)
    assert story.found() == set()
    story.attempts[-1] = replace(story.attempts[-1], ended_at=10.5)
    assert story.found() == {"overlapping"}


def test_an_attempt_beyond_the_budget_is_seen(story: Story) -> None:
    job_id, token = story.complete()
    story.ledger.append(Entry("start", job_id, 4, token))
    assert story.found() == {"over_budget"}


def test_more_attempts_spent_than_allowed_are_seen(story: Story) -> None:
    job_id, _ = story.complete()
    for number in range(3):
        story.run_before(job_id, ends_at=9.0)
        story.attempts[-1] = replace(story.attempts[-1], started_at=float(number), ended_at=number + 0.5)
    assert story.found() == {"over_budget"}


@pytest.mark.parametrize("places", [("ready",), ("running", "ended"), ()])
def test_a_job_anywhere_else_than_among_the_ended_is_not_terminal(story: Story, places: tuple[str, ...]) -> None:
    job_id, _ = story.complete()
    story.change(job_id, places=places, state=None, token=None, result=None)
    assert story.found() == {"not_terminal"}


def test_a_job_that_ran_before_what_it_waits_for_is_seen(story: Story) -> None:
    story.edges = [Edge(edge.parent, edge.child) for edge in story.edges]
    assert story.found() == {"early"}


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("worker_lost", "the worker was silent for longer than its timeout"),
        ("lease_expired", "the lease expired"),
    ],
)
def test_a_second_end_is_a_duplicate_with_the_cause_of_the_first(story: Story, code: str, cause: str) -> None:
    job_id, _ = story.complete()
    token = story.run_before(job_id, code=code)
    assert not check(story.history()).duplicates
    story.ledger.append(Entry("end", job_id, 1, token))
    verdict = check(story.history())
    assert verdict.holds
    assert verdict.duplicates == {cause: 1}
    assert verdict.refused == 1
    assert verdict.duplicates_per_million == pytest.approx(1e6 / 3)


def test_an_end_under_a_lease_that_the_store_forgot_is_put_down_to_a_crash(story: Story) -> None:
    job_id, _ = story.complete()
    story.ledger.append(Entry("end", job_id, 1, uuid4()))
    assert check(story.history()).duplicates == {CRASHED: 1}


def test_an_end_under_a_lease_that_was_handed_back_says_so(story: Story) -> None:
    job_id, _ = story.complete()
    token = story.run_before(job_id)
    story.attempts.clear()
    story.ledger.append(Entry("end", job_id, 1, token))
    assert check(story.history()).duplicates == {HANDED_BACK: 1}


# failover

FAILOVER = Failover(held_at=100.0, promoted_at=102.0)
SYNCHRONOUS = Failover(held_at=101.0, promoted_at=102.0, is_synchronous=True)


def test_a_job_that_an_asynchronous_standby_never_got_is_counted_apart(story: Story) -> None:
    story.failovers.append(FAILOVER)
    story.groups.append(Group((uuid4(), uuid4()), Answer.ACKNOWLEDGED, 101.0))
    assert story.found() == set()
    assert check(story.history()).forgotten == 2


@pytest.mark.parametrize("answered_at", [99.9, 103.0])
def test_a_job_acknowledged_before_or_after_what_a_failover_took_back_is_lost(story: Story, answered_at: float) -> None:
    story.failovers.append(FAILOVER)
    story.groups.append(Group((uuid4(),), Answer.ACKNOWLEDGED, answered_at))
    assert story.found() == {"lost"}
    assert check(story.history()).forgotten == 0


def test_a_group_of_which_a_failover_took_back_a_part_is_lost(story: Story) -> None:
    story.failovers.append(FAILOVER)
    there, _ = story.complete()
    story.groups[-1] = Group((there, uuid4()), Answer.ACKNOWLEDGED, 101.0)
    assert story.found() == {"lost"}


def test_a_synchronous_standby_excuses_no_lost_job(story: Story) -> None:
    story.failovers.append(SYNCHRONOUS)
    story.groups.append(Group((uuid4(),), Answer.ACKNOWLEDGED, 101.5))
    assert story.found() == {"lost"}


def test_a_failover_excuses_no_second_valid_lease(story: Story) -> None:
    story.failovers.append(FAILOVER)
    job_id, _ = story.complete()
    story.audit.append(Audit(0, LeaseEvent.BORN, job_id, uuid4(), 1))
    assert story.found() == {"overlapping"}


def test_a_failover_excuses_no_job_that_is_stuck(story: Story) -> None:
    story.failovers.append(FAILOVER)
    job_id, _ = story.complete()
    story.change(job_id, places=("running",), state=None, token=None, result=None)
    assert story.found() == {"not_terminal"}


@pytest.mark.parametrize("failover", [FAILOVER, SYNCHRONOUS])
def test_an_end_under_a_lease_whose_birth_was_lost_is_put_down_to_the_failover(
    story: Story, failover: Failover
) -> None:
    story.failovers.append(failover)
    job_id, _ = story.complete()
    story.ledger.append(Entry("end", job_id, 1, uuid4(), at=101.5))
    story.ledger.append(Entry("end", job_id, 1, uuid4(), at=50.0))
    assert check(story.history()).duplicates == {FORGOTTEN_CLAIM: 1, CRASHED: 1}


def test_an_end_whose_outcome_was_lost_is_put_down_to_the_failover(story: Story) -> None:
    story.failovers.append(FAILOVER)
    job_id, _ = story.complete()
    token = story.run_before(job_id)
    story.attempts.clear()
    story.ledger.append(Entry("end", job_id, 1, token, at=101.5))
    assert check(story.history()).duplicates == {FORGOTTEN_OUTCOME: 1}


def test_a_synchronous_standby_forgets_no_outcome(story: Story) -> None:
    story.failovers.append(SYNCHRONOUS)
    job_id, _ = story.complete()
    token = story.run_before(job_id)
    story.attempts.clear()
    story.ledger.append(Entry("end", job_id, 1, token, at=101.5))
    assert check(story.history()).duplicates == {HANDED_BACK: 1}


# double execution


def run_for(story: Story, job_id: UUID, *, start: float, stop: float, kind: Kind = "loop", worker: int = 1) -> None:
    """One attempt as the ledger has it: a line every tenth of a second."""
    token = uuid4()
    times = [start + step / 10 for step in range(round((stop - start) * 10))]
    story.ledger += [
        Entry("start", job_id, 1, token, worker, worker, kind, start),
        *(Entry("alive", job_id, 1, token, worker, worker, kind, at) for at in times),
        Entry("stop", job_id, 1, token, worker, worker, kind, stop),
    ]


@pytest.mark.parametrize("kind", ["loop", "process"])
def test_a_handler_that_could_have_stopped_and_ran_beside_another_is_seen(story: Story, kind: Kind) -> None:
    job_id, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=104.0, kind=kind)
    run_for(story, job_id, start=103.0, stop=103.5)
    verdict = check(story.history())
    assert story.found() == {"double"}
    assert verdict.double_seconds(is_excused=False) == pytest.approx(0.5)


def test_handlers_one_after_the_other_are_no_double(story: Story) -> None:
    job_id, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=103.0)
    run_for(story, job_id, start=103.1, stop=104.0)
    assert story.found() == set()
    assert check(story.history()).doubles == []


def excused(*troubles: Trouble, kind: Kind = "loop", **pause: float) -> str | None:
    story = Story()
    job_id, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=pause.get("pauses_at", 104.0), kind=kind, worker=7)
    if pause:
        last = story.ledger[-1]
        story.ledger.append(replace(last, event="stop", at=104.0))
    run_for(story, job_id, start=103.0, stop=103.5)
    history = replace(story.history(), troubles=troubles)
    (double,) = check(history).doubles
    assert double.seconds == pytest.approx(0.5)
    return double.excuse


def test_what_could_not_be_stopped_is_counted_apart() -> None:
    def trouble(at: float, **given: Any) -> Trouble:
        return Trouble(fault="stall", began_at=at, ended_at=at + 0.5, **given)

    assert excused() is None
    assert excused(trouble(101.0)) is None
    assert excused(trouble(101.0, frozen=8)) is None
    assert excused(trouble(90.0, is_upset=True)) is None
    assert excused(kind="thread") == "in a thread"
    assert excused(pauses_at=101.0) == "without a sign of life for a while"
    assert excused(trouble(101.0, frozen=7)) == "of a worker that was stopped"
    assert excused(trouble(101.0, is_upset=True)) == "whose lease the store forgot or ended early"
    assert excused(trouble(101.0, locked=(uuid4(),))) is None


def test_a_lease_that_could_not_be_extended_is_counted_apart(story: Story) -> None:
    job_id, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=104.0)
    run_for(story, job_id, start=103.0, stop=103.5)
    trouble = Trouble(fault="held-transaction", began_at=101.0, ended_at=103.0, locked=(job_id,))
    (double,) = check(replace(story.history(), troubles=[trouble])).doubles
    assert double.excuse is not None
    assert "held its row" in double.excuse


def test_a_double_is_put_down_to_the_fault_before_it(story: Story) -> None:
    job_id, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=104.0)
    run_for(story, job_id, start=103.0, stop=103.5)
    troubles = [Trouble(fault=name, began_at=at, ended_at=at) for name, at in (("cut", 99.0), ("reset", 103.2))]
    assert check(replace(story.history(), troubles=troubles)).doubles_by_fault() == {"cut": (1, 0.5)}


# keys


def test_repeats_of_a_key_that_answer_with_one_job_are_right(story: Story) -> None:
    job_id, _ = story.complete()
    story.keyed += [
        Keyed("k", (job_id,), Answer.ACKNOWLEDGED, (job_id,)),
        Keyed("k", (uuid4(),), Answer.ACKNOWLEDGED, (job_id,)),
        Keyed("k", (uuid4(),), Answer.UNKNOWN),
        Keyed("k", (uuid4(),), Answer.REJECTED),
    ]
    assert story.found() == set()
    assert check(story.history()).answers[Answer.ACKNOWLEDGED] == len(story.groups) + 2


def test_a_key_that_is_answered_with_two_jobs_is_seen(story: Story) -> None:
    first, _ = story.complete()
    second, _ = story.complete()
    story.keyed += [Keyed("k", (one,), Answer.ACKNOWLEDGED, (one,)) for one in (first, second)]
    assert story.found() == {"keys"}


def test_a_key_of_which_two_submits_made_jobs_is_seen(story: Story) -> None:
    first, _ = story.complete()
    second, _ = story.complete()
    story.keyed += [Keyed("k", (one,), Answer.UNKNOWN) for one in (first, second)]
    assert story.found() == {"keys"}


def test_a_key_that_is_answered_with_a_job_that_is_gone_is_lost(story: Story) -> None:
    gone = uuid4()
    story.keyed.append(Keyed("k", (gone,), Answer.ACKNOWLEDGED, (gone,)))
    assert story.found() == {"lost"}


def test_a_batch_of_a_key_that_is_there_in_part_is_lost(story: Story) -> None:
    job_id, _ = story.complete()
    story.keyed.append(Keyed("k", (job_id, uuid4()), Answer.UNKNOWN))
    assert story.found() == {"lost"}


def test_the_job_of_a_key_that_was_rolled_back_must_not_be_there(story: Story) -> None:
    job_id, _ = story.complete()
    story.keyed.append(Keyed("k", (job_id,), Answer.REJECTED))
    assert story.found() == {"ghosts"}


# cancels


@pytest.mark.parametrize(
    ("answer", "state", "found"),
    [
        (Answer.ACKNOWLEDGED, "CANCELLED", set()),
        (Answer.ACKNOWLEDGED, "DEAD_LETTER", {"cancels"}),
        (Answer.ACKNOWLEDGED, "FAILED", {"cancels"}),
        (Answer.REJECTED, "DEAD_LETTER", set()),
        (Answer.REJECTED, "CANCELLED", {"cancels"}),
        (Answer.UNKNOWN, "CANCELLED", set()),
    ],
)
def test_a_cancel_holds_if_it_was_committed_and_only_then(
    story: Story, answer: Answer, state: str, found: set[str]
) -> None:
    job_id, _ = story.complete()
    story.change(job_id, state=state, result=None)
    story.cancels.append(Cancel(job_id, answer))
    assert story.found() == found


def test_a_job_may_complete_before_its_cancel_is_heard(story: Story) -> None:
    job_id, _ = story.complete()
    story.cancels.append(Cancel(job_id, Answer.ACKNOWLEDGED))
    assert story.found() == set()


def test_a_job_may_be_cancelled_with_what_it_waits_for(story: Story) -> None:
    child = story.edges[0].child
    story.change(child, state="CANCELLED", result=None)
    story.cancels.append(Cancel(child, Answer.REJECTED))
    assert story.found() == set()


# what others say


def test_an_overdue_job_is_seen_and_the_longest_is_told(story: Story) -> None:
    story.overdue += [
        Overdue(job_id=uuid4(), seconds=seconds, at_seconds=9.0, why="it is due") for seconds in (0.5, 2.5)
    ]
    assert story.found() == {"overdue"}
    verdict = check(story.history())
    assert verdict.overdue_seconds == 2.5
    assert "2.5 s past its bound" in verdict.examples()[0]


def test_a_finding_of_the_doctor_is_seen(story: Story) -> None:
    story.examination.append("tally (error, 1): the counts differ from the rows")
    assert story.found() == {"examination"}


def test_recovery_is_from_the_strike_to_the_next_start_under_another_lease(story: Story) -> None:
    job_id, _ = story.complete()
    unharmed, _ = story.complete()
    run_for(story, job_id, start=100.0, stop=101.0)
    run_for(story, unharmed, start=100.0, stop=101.0)
    run_for(story, job_id, start=104.5, stop=105.0)
    run_for(story, job_id, start=109.0, stop=110.0)
    story.audit.append(Audit(98, LeaseEvent.BORN, job_id, token := uuid4(), 1, at=100.0))
    story.audit.append(Audit(99, LeaseEvent.DIED, job_id, token, 1, at=103.0))
    trouble = Trouble(fault="kill-worker", began_at=101.0, ended_at=101.0, cut_off=(job_id, unharmed))
    verdict = check(replace(story.history(), troubles=[trouble]))
    assert verdict.recoveries == {"kill-worker": [Recovery(reclaimed_seconds=2.0, started_seconds=3.5)]}
