"""For how long two handlers ran the same job at once, from the ledger's times. Pure.

DOUBLE-1. An attempt ran from its first line in the ledger to its last. One that was killed wrote its last line up to
    ``WATCHED_SECONDS`` before; that much is not seen.
DOUBLE-2. Where two attempts of a job overlap, the earlier one should have stopped. It must have, unless it could not:

    - it ran in a thread, which can be asked to stop and not made to;
    - it showed no sign of life for longer than a handler may take to stop: its process was stopped, its loop blocked;
    - its worker's process was stopped meanwhile, so that nobody could tell it;
    - the store forgot its claim in a crash, or ended its lease early because the clock jumped;
    - a caller's transaction held its row, so that its lease could not be extended and ended in the moment it let go.

    What could not stop is counted apart.
DOUBLE-3. An overlap is put down to the fault that began last before the job was started again.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final
from uuid import UUID

from chaos import scale
from chaos.history import Trouble
from chaos.ledger import Entry, Kind

CLAIMED_SECONDS: Final = 1.0
"""At most, between a claim and the first line of its handler."""
NO_FAULT: Final = "no fault"


@dataclass(slots=True)
class Attempt:
    job_id: UUID
    token: UUID
    kind: Kind
    worker: int
    started_at: float
    stopped_at: float
    longest_pause: float = 0.0

    def note(self, at: float) -> None:
        self.longest_pause = max(self.longest_pause, at - self.stopped_at)
        self.stopped_at = max(self.stopped_at, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """A job that ran twice at the same time."""

    job_id: UUID
    seconds: float
    kind: Kind
    fault: str
    excuse: str | None
    """Why the earlier handler could not stop; None: it should have."""

    def __str__(self) -> str:
        return f"{self.job_id} ran twice at once for {self.seconds:.2f} s ({self.kind}, {self.fault})"


def find_doubles(ledger: Sequence[Entry], troubles: Sequence[Trouble]) -> Iterator[Double]:
    for attempts in _attempts(ledger).values():
        for earlier, later in combinations(sorted(attempts, key=lambda one: one.started_at), 2):
            seconds = min(earlier.stopped_at, later.stopped_at) - later.started_at
            if seconds > 0:
                yield Double(
                    job_id=earlier.job_id,
                    seconds=seconds,
                    kind=earlier.kind,
                    fault=_fault(later.started_at, troubles),
                    excuse=_excuse(earlier, troubles),
                )


def _attempts(ledger: Sequence[Entry]) -> dict[UUID, list[Attempt]]:
    """Those of jobs that were started more than once."""
    tokens: dict[UUID, Attempt] = {}
    jobs: defaultdict[UUID, list[Attempt]] = defaultdict(list)
    for entry in ledger:
        attempt = tokens.get(entry.token)
        if attempt is None:
            attempt = Attempt(entry.job_id, entry.token, entry.kind, entry.worker, entry.at, entry.at)
            tokens[entry.token] = attempt
            jobs[entry.job_id].append(attempt)
        attempt.note(entry.at)
    return {job_id: attempts for job_id, attempts in jobs.items() if len(attempts) > 1}


def _fault(at: float, troubles: Sequence[Trouble]) -> str:
    before = [trouble for trouble in troubles if trouble.began_at <= at]
    return max(before, key=lambda trouble: trouble.began_at).fault if before else NO_FAULT


def _excuse(attempt: Attempt, troubles: Sequence[Trouble]) -> str | None:
    if attempt.kind == "thread":
        return "in a thread"
    if attempt.longest_pause > scale.STOPPED_SECONDS:
        return "without a sign of life for a while"
    for trouble in troubles:
        if trouble.began_at > attempt.stopped_at or trouble.ended_at < attempt.started_at - CLAIMED_SECONDS:
            continue
        if trouble.frozen == attempt.worker:
            return "of a worker that was stopped"
        if attempt.job_id in trouble.locked:
            return "whose lease could not be extended: a caller's transaction held its row"
        if trouble.is_upset:
            return "whose lease the store forgot or ended early"
    return None
