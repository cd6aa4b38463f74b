"""Every count of the checker can go red, and none does without a cause."""

from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

import pytest

from chaos.checker import CRASHED, HANDED_BACK, REQUIRED, check
from chaos.history import Answer, Audit, Edge, Group, History, LeaseEvent, SpentAttempt, Stored, StoredJob
from chaos.ledger import Entry


@dataclass
class Story:
    """A run that went well, to be spoilt by a test."""

    groups: list[Group] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    jobs: dict[UUID, StoredJob] = field(default_factory=dict)
    attempts: list[SpentAttempt] = field(default_factory=list)
    audit: list[Audit] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def history(self) -> History:
        stored = Stored(jobs=self.jobs, attempts=self.attempts, audit=self.audit, edges=self.edges)
        return History(groups=self.groups, ledger=self.ledger, stored=stored)

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
