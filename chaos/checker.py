"""Judges a history: pure, so that every count can be made to go red by a test.

CHECKER-1. Lost: an acknowledged job that the store does not have; one that it completed without any handler having
    reached its end under the lease that completed it; a group that was accepted in part.
CHECKER-2. Stale write accepted: a result, a failure or a checkpoint that names another lease than the one it was stored
    under.
CHECKER-3. Overlap: by the store's own order, a lease is born while another one of the same job lives, or the times of
    its attempts overlap.
CHECKER-4. Over budget: an attempt with a higher number than the job allows, or more attempts spent than that.
CHECKER-5. Not terminal: a job that stands anywhere but among the ended ones after everything was healed and drained.
CHECKER-6. Early: a job that was leased before what it waits for had ended. Ghost: a rejected job that is there.
CHECKER-7. Duplicated: a handler reached its end more than once. Allowed, and counted by what became of the earlier
    lease.
CHECKER-8. Double: two handlers ran the same job at the same time, and the earlier one could have been stopped
    (``doubles``).
CHECKER-9. A failover takes back what had not reached the standby, the witness's words included: what is left is a
    beginning of the store's history, and is judged like any other. A lease whose birth was lost was never valid there.
    Acknowledged jobs that were lost with the primary of an asynchronous standby are counted apart (``forgotten``):
    those answered after the standby was held back and before it was promoted, and all of a group or none. A synchronous
    standby excuses nothing.
CHECKER-10. Keys: submits with the same key that were answered with different jobs, or of which more than one made its
    own. A job that a key was answered with and that is not there is lost; one of a key whose transaction was rolled
    back is a ghost.
CHECKER-11. Cancels: a job whose cancel was committed, and that failed instead of being cancelled or completed; one that
    was cancelled although the cancel was rolled back.
CHECKER-12. Overdue: a job that stood past the time by which somebody was bound to move it (``overdue``).
CHECKER-13. Examination: what ``holdfast doctor`` finds in the database at the end.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from uuid import UUID

from chaos import scale
from chaos.doubles import Double, find_doubles
from chaos.history import Answer, Failover, Group, History, LeaseEvent, SpentAttempt, StoredJob
from chaos.recovery import Recovery, find_recoveries

COMPLETED: Final = "COMPLETED"
CANCELLED: Final = "CANCELLED"
MAX_EXAMPLES: Final = 5
FAILED: Final = ("FAILED", "DEAD_LETTER")
REQUIRED: Final = (
    "lost",
    "stale",
    "overlapping",
    "double",
    "over_budget",
    "not_terminal",
    "early",
    "ghosts",
    "keys",
    "cancels",
    "overdue",
    "examination",
)
TITLES: Final = {
    "lost": "lost",
    "stale": "stale writes accepted",
    "overlapping": "overlapping valid leases",
    "double": "jobs run twice at once by handlers that can stop",
    "over_budget": "attempts over budget",
    "not_terminal": "not terminal after healing and draining",
    "early": "run before what they wait for",
    "ghosts": "rejected, but there",
    "keys": "keys that stand for more than one job",
    "cancels": "cancels not heeded, or heeded though rolled back",
    "overdue": "jobs past their bound",
    "examination": "findings of `holdfast doctor`",
}
"""Of what must be 0."""
CRASHED: Final = "the database crashed and forgot the claim"
FORGOTTEN_CLAIM: Final = "a failover forgot the claim"
FORGOTTEN_OUTCOME: Final = "a failover forgot the outcome"
LATE_SECONDS: Final = 0.5
"""At most, between the death of a primary and the last of its answers that is written down."""
HANDED_BACK: Final = "handed back after the end of the handler"
CAUSES: Final = {
    "worker_lost": "the worker was silent for longer than its timeout",
    "lease_expired": "the lease expired",
}


@dataclass(slots=True)
class Verdict:
    jobs: int = 0
    answers: Counter[Answer] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    found: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in REQUIRED})
    """What must be empty, in words, by name."""
    duplicates: Counter[str] = field(default_factory=Counter)
    """By cause."""
    refused: int = 0
    """Handlers that reached their end under a lease that had been lost, whose word was not taken."""
    attempts: int = 0
    """Handlers started."""
    forgotten: int = 0
    """Acknowledged jobs that were lost with the primary of an asynchronous standby."""
    doubles: list[Double] = field(default_factory=list)
    """Also of handlers that could not stop."""
    overdue_seconds: float = 0.0
    """The longest time that a job stood past its bound."""
    recoveries: dict[str, list[Recovery]] = field(default_factory=dict)
    """By fault, how long the jobs of a holder that was gone waited for their next start."""

    @property
    def holds(self) -> bool:
        return not any(self.found.values())

    @property
    def duplicates_per_million(self) -> float:
        return 1e6 * sum(self.duplicates.values()) / self.jobs if self.jobs else 0.0

    def double_seconds(self, *, is_excused: bool) -> float:
        """How long jobs ran twice at once, all together."""
        return sum(one.seconds for one in self.doubles if (one.excuse is not None) == is_excused)

    def doubles_by_fault(self) -> dict[str, tuple[int, float]]:
        """How many, and the longest, in seconds."""
        found: dict[str, tuple[int, float]] = {}
        for one in self.doubles:
            count, longest = found.get(one.fault, (0, 0.0))
            found[one.fault] = count + 1, max(longest, one.seconds)
        return found

    def count(self, name: str) -> int:
        return len(self.found[name])

    def examples(self) -> list[str]:
        return [f"{TITLES[name]}: {what}" for name in REQUIRED for what in self.found[name][:MAX_EXAMPLES]]


def check(history: History) -> Verdict:
    verdict = Verdict()
    _sort(history, verdict)
    _find_lost(history, verdict)
    _find_stale(history, verdict)
    _find_overlaps(history, verdict)
    _find_over_budget(history, verdict)
    _find_unfinished(history, verdict)
    _find_early(history, verdict)
    _count_duplicates(history, verdict)
    _find_doubles(history, verdict)
    _find_wrong_keys(history, verdict)
    _find_wrong_cancels(history, verdict)
    _find_overdue(history, verdict)
    verdict.found["examination"] += history.examination
    verdict.recoveries = find_recoveries(history.ledger, history.stored.audit, history.troubles)
    return verdict


def _sort(history: History, verdict: Verdict) -> None:
    for group in history.groups:
        verdict.answers[group.answer] += len(group.job_ids)
    for keyed in history.keyed:
        verdict.answers[keyed.answer] += len(keyed.tried)
    verdict.jobs = len(history.stored.jobs)
    verdict.states.update(job.state or job.places[0] for job in history.stored.jobs.values() if job.places)
    verdict.attempts = sum(entry.event == "start" for entry in history.ledger)


def _find_lost(history: History, verdict: Verdict) -> None:
    jobs = history.stored.jobs
    for group in history.groups:
        missing = [job_id for job_id in group.job_ids if job_id not in jobs]
        if group.answer is Answer.REJECTED:
            verdict.found["ghosts"] += [str(job_id) for job_id in group.job_ids if job_id in jobs]
        elif group.answer is Answer.ACKNOWLEDGED:
            if missing and len(missing) == len(group.job_ids) and _may_be_forgotten(group, history):
                verdict.forgotten += len(missing)
            else:
                verdict.found["lost"] += [f"{job_id} was acknowledged" for job_id in missing]
        elif 0 < len(missing) < len(group.job_ids):
            verdict.found["lost"] += [f"{job_id} was to be accepted with others that are there" for job_id in missing]
    ended = {(entry.job_id, entry.token) for entry in history.ledger if entry.event == "end"}
    for job in jobs.values():
        if job.state == COMPLETED and (job.id, job.token) not in ended:
            verdict.found["lost"].append(f"{job.id} was completed under {job.token}, where no handler came to its end")


def _may_be_forgotten(group: Group, history: History) -> bool:
    return any(
        not failover.is_synchronous and failover.held_at <= group.answered_at <= failover.promoted_at + LATE_SECONDS
        for failover in history.failovers
    )


def _find_stale(history: History, verdict: Verdict) -> None:
    stale = verdict.found["stale"]
    for job in history.stored.jobs.values():
        if job.state == COMPLETED and _quoted(job.result) != str(job.token):
            stale.append(f"{job.id} was completed under {job.token} with the result of {_quoted(job.result)}")
    for attempt in history.stored.attempts:
        named = _named_token(attempt.message)
        if named is not None and named != attempt.token:
            stale.append(f"{attempt.job_id}: attempt {attempt.token} has the failure of {named}")
    for audit in history.stored.audit:
        if audit.event is LeaseEvent.NOTED and _quoted(audit.said) != str(audit.token):
            stale.append(f"{audit.job_id}: a checkpoint of {_quoted(audit.said)} while {audit.token} held the lease")


def _quoted(text: str | None) -> str | None:
    return text.strip('"') if text is not None else None


def _named_token(message: str) -> UUID | None:
    """The handlers of the run begin a failure's message with their token."""
    try:
        return UUID(message.partition(" ")[0])
    except ValueError:
        return None


def _find_overlaps(history: History, verdict: Verdict) -> None:
    holders: dict[UUID, UUID] = {}
    overlapping = verdict.found["overlapping"]
    for audit in sorted(history.stored.audit, key=lambda one: one.number):
        holder = holders.get(audit.job_id)
        if audit.event is LeaseEvent.DIED:
            if holder != audit.token:
                overlapping.append(f"{audit.job_id}: {audit.token} ended while {holder} held the lease")
            holders.pop(audit.job_id, None)
        elif audit.event is not LeaseEvent.NOTED and audit.token is not None:
            # A row that is written again is born again under the same token.
            is_right = holder == audit.token or (holder is None and audit.event is LeaseEvent.BORN)
            if not is_right:
                overlapping.append(f"{audit.job_id}: {audit.token} was {audit.event} while {holder} held the lease")
            holders[audit.job_id] = audit.token
    for job_id, spans in _spans(history).items():
        for (_, earlier_end), (later_start, _) in pairwise(spans):
            if later_start < earlier_end:
                overlapping.append(f"{job_id}: an attempt began {earlier_end - later_start:.6f} s before another ended")


def _spans(history: History) -> Mapping[UUID, list[tuple[float, float]]]:
    """From when to when a job's attempts had their leases, by the store's clock, in order."""
    spans: defaultdict[UUID, list[tuple[float, float]]] = defaultdict(list)
    for attempt in history.stored.attempts:
        spans[attempt.job_id].append((attempt.started_at, attempt.ended_at))
    for job in history.stored.jobs.values():
        if job.state == COMPLETED and job.started_at is not None and job.ended_at is not None:
            spans[job.id].append((job.started_at, job.ended_at))
    return {job_id: sorted(one) for job_id, one in spans.items() if len(one) > 1}


def _find_over_budget(history: History, verdict: Verdict) -> None:
    jobs = history.stored.jobs
    spent = Counter(attempt.job_id for attempt in history.stored.attempts)
    spent.update(job.id for job in jobs.values() if job.state == COMPLETED)
    highest: dict[UUID, int] = defaultdict(int)
    for entry in history.ledger:
        highest[entry.job_id] = max(highest[entry.job_id], entry.attempt)
    for job in jobs.values():
        number = max(highest.get(job.id, 0), job.attempt, spent[job.id])
        if number > job.max_attempts:
            verdict.found["over_budget"].append(f"{job.id}: {number} attempts of {job.max_attempts}")


def _find_unfinished(history: History, verdict: Verdict) -> None:
    for job in history.stored.jobs.values():
        if not job.is_terminal:
            where = " and ".join(job.places) or "no table"
            verdict.found["not_terminal"].append(f"{job.id} stands in {where}")


def _find_early(history: History, verdict: Verdict) -> None:
    first_birth: dict[UUID, int] = {}
    last_death: dict[UUID, int] = {}
    for audit in history.stored.audit:
        if audit.event is LeaseEvent.BORN:
            first_birth[audit.job_id] = min(first_birth.get(audit.job_id, audit.number), audit.number)
        elif audit.event is LeaseEvent.DIED:
            last_death[audit.job_id] = max(last_death.get(audit.job_id, 0), audit.number)
    for edge in history.stored.edges:
        born, died = first_birth.get(edge.child), last_death.get(edge.parent)
        if born is not None and (died is None or born < died):
            verdict.found["early"].append(f"{edge.child} was leased before {edge.parent} had ended")


def _count_duplicates(history: History, verdict: Verdict) -> None:
    attempts = {attempt.token: attempt for attempt in history.stored.attempts}
    known = {audit.token for audit in history.stored.audit if audit.event is LeaseEvent.BORN}
    ends: defaultdict[UUID, list[UUID]] = defaultdict(list)
    ended_at: dict[UUID, float] = {}
    for entry in history.ledger:
        if entry.event == "end":
            ends[entry.job_id].append(entry.token)
            ended_at[entry.token] = entry.at
    for job_id, tokens in ends.items():
        job = history.stored.jobs.get(job_id)
        verdict.refused += sum(job is None or token != job.token for token in tokens)
        for token in _superfluous(tokens, job):
            cause = _cause(token, attempts.get(token), is_known=token in known)
            verdict.duplicates[_cause_of_failover(ended_at[token], history, is_known=token in known) or cause] += 1


def _find_doubles(history: History, verdict: Verdict) -> None:
    verdict.doubles = list(find_doubles(history.ledger, history.troubles))
    verdict.found["double"] += [str(one) for one in verdict.doubles if one.excuse is None]


def _find_wrong_keys(history: History, verdict: Verdict) -> None:
    jobs = history.stored.jobs
    answered: defaultdict[str, set[tuple[UUID, ...]]] = defaultdict(set)
    made: defaultdict[str, set[tuple[UUID, ...]]] = defaultdict(set)
    for keyed in history.keyed:
        there = [job_id for job_id in keyed.tried if job_id in jobs]
        if there:
            made[keyed.key].add(keyed.tried)
        if 0 < len(there) < len(keyed.tried):
            verdict.found["lost"].append(f"of the jobs of key {keyed.key} only {len(there)} are there")
        if keyed.answer is Answer.REJECTED:
            verdict.found["ghosts"] += [str(job_id) for job_id in there]
        elif keyed.answer is Answer.ACKNOWLEDGED:
            answered[keyed.key].add(keyed.answered)
    for key in answered.keys() | made.keys():
        stands_for = answered[key] | made[key]
        if len(stands_for) > 1:
            verdict.found["keys"].append(f"{key} stands for {len(stands_for)} submits")
        for ids in answered[key]:
            lost = [job_id for job_id in ids if job_id not in jobs]
            verdict.found["lost"] += [f"{job_id} was acknowledged for key {key}" for job_id in lost]


def _find_wrong_cancels(history: History, verdict: Verdict) -> None:
    jobs = history.stored.jobs
    waiting = {edge.child for edge in history.stored.edges}
    wanted = {cancel.job_id for cancel in history.cancels if cancel.answer is not Answer.REJECTED}
    for cancel in history.cancels:
        state = jobs[cancel.job_id].state if cancel.job_id in jobs else None
        if cancel.answer is Answer.ACKNOWLEDGED and state in FAILED:
            verdict.found["cancels"].append(f"{cancel.job_id} was to be cancelled, and is {state}")
        # What it waits for may have been cancelled, and it with that.
        is_nobodys = cancel.job_id not in wanted and cancel.job_id not in waiting
        if cancel.answer is Answer.REJECTED and state == CANCELLED and is_nobodys:
            verdict.found["cancels"].append(f"{cancel.job_id} was cancelled by a transaction that was rolled back")


def _find_overdue(history: History, verdict: Verdict) -> None:
    verdict.found["overdue"] += [str(one) for one in sorted(history.overdue, key=lambda one: -one.seconds)]
    verdict.overdue_seconds = max((one.seconds for one in history.overdue), default=0.0)


def _superfluous(tokens: list[UUID], job: StoredJob | None) -> Iterator[UUID]:
    """All ends but the one that counted; where none did, all but one."""
    counted = job.token if job is not None and job.token in tokens else tokens[0]
    is_seen = False
    for token in tokens:
        if token == counted and not is_seen:
            is_seen = True
        else:
            yield token


def _cause_of_failover(ended_at: float, history: History, *, is_known: bool) -> str | None:
    """What a failover has to do with a handler that came to its end then, or ran while it happened."""
    for failover in history.failovers:
        if not is_known and failover.held_at <= ended_at <= failover.promoted_at + scale.LONG_SECONDS[1]:
            return FORGOTTEN_CLAIM
        if is_known and _forgets_outcome(failover, ended_at):
            return FORGOTTEN_OUTCOME
    return None


def _forgets_outcome(failover: Failover, ended_at: float) -> bool:
    return not failover.is_synchronous and failover.held_at <= ended_at <= failover.promoted_at


def _cause(token: UUID, attempt: SpentAttempt | None, *, is_known: bool) -> str:
    if not is_known:
        return CRASHED
    if attempt is None:
        return HANDED_BACK
    if attempt.is_ended_by_holder:
        return f"the worker said: {attempt.code or attempt.message.partition(str(token))[0] or 'failed'}"
    return CAUSES.get(attempt.code, attempt.code)
