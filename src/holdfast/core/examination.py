"""What is asked of a live database: the checks, what a finding means, and what to do about it.

A store counts and names what breaks a rule (``Found``); the words are here, so that they are the same for every store.
What "overdue" means is said in ``liveness``.

EXAMINE-1. What is merely under way is never found: whatever must agree is read in one snapshot, and what has a time by
    which it must have moved is found only if it is still there at a second look.
EXAMINE-2. A repair looks again under the locks that the verbs take, and changes only what is still wrong: it is safe
    beside running workers, and a second one finds nothing to do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.liveness import Owner, Standing, Timing, overdue_since
from holdfast.core.states import State


class Severity(StrEnum):
    WRONG = "wrong"
    WARNING = "warning"
    """Worth knowing; nothing is broken by it."""


class Code(StrEnum):
    # the set-up
    MIGRATIONS_PENDING = "migrations_pending"
    PRIVILEGES_MISSING = "privileges_missing"
    CLOCK_SKEW = "clock_skew"
    FILE_DAMAGED = "file_damaged"
    # where jobs stand
    IN_TWO_TABLES = "in_two_tables"
    IN_NO_TABLE = "in_no_table"
    ROW_WITHOUT_JOB = "row_without_job"
    TALLY_WRONG = "tally_wrong"
    SEQUENCE_BEHIND = "sequence_behind"
    # who waits for whom
    PENDING_WITHOUT_EDGE = "pending_without_edge"
    WAITS_FOR_NOTHING = "waits_for_nothing"
    END_UNTOLD = "end_untold"
    DEPENDENTS_FORGOTTEN = "dependents_forgotten"
    OPEN_EDGE_LEFT = "open_edge_left"
    EDGE_TO_NOTHING = "edge_to_nothing"
    MARK_WITHOUT_JOB = "mark_without_job"
    # what belongs to jobs
    KEY_WITHOUT_JOB = "key_without_job"
    LABEL_WITHOUT_JOB = "label_without_job"
    # time
    LEASE_WITHOUT_WORKER = "lease_without_worker"
    OVERDUE_PENDING = "overdue_pending"
    OVERDUE_DELAYED = "overdue_delayed"
    OVERDUE_SCHEDULED = "overdue_scheduled"
    OVERDUE_RUNNING = "overdue_running"
    OVERDUE_RETRYING = "overdue_retrying"
    # the state of the database
    OLD_TRANSACTION = "old_transaction"
    DEAD_ROWS = "dead_rows"
    INDEX_BLOAT = "index_bloat"


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    advice: str
    severity: Severity = Severity.WRONG
    is_repaired: bool = False
    """Whether ``--repair`` puts it right."""


_START: Final = "start a worker, or look why those that run do not tick; --repair does what a tick would do"
_BY_HAND: Final = (
    "not repaired, because only a person can say which is true: it comes from a restore or a change by hand; "
    "stop the workers, put the rows right, and run this again with --deep"
)

CHECKS: Final = {
    Code.MIGRATIONS_PENDING: Check(
        "the tables are not those of this version",
        "older tables: holdfast migrate; newer ones: upgrade this program. Nothing else was checked",
    ),
    Code.PRIVILEGES_MISSING: Check("the role lacks privileges", "grant what is named"),
    Code.CLOCK_SKEW: Check(
        "the clock of this machine and the database's differ",
        "synchronise them (NTP); jobs are timed by the database's, but a run_at is often made with this one",
        Severity.WARNING,
    ),
    Code.FILE_DAMAGED: Check(
        "SQLite finds the file damaged", "restore a backup, or save what can be read: sqlite3 jobs.db .recover"
    ),
    Code.IN_TWO_TABLES: Check("jobs stand in two states at once", _BY_HAND),
    Code.IN_NO_TABLE: Check("jobs stand in no state: nobody will run them", _BY_HAND),
    Code.ROW_WITHOUT_JOB: Check("rows have a state and no job", _BY_HAND),
    Code.TALLY_WRONG: Check(
        "counts differ from the jobs that there are", "--repair corrects the counts", is_repaired=True
    ),
    Code.SEQUENCE_BEHIND: Check(
        "the next number to be given out was given out before", "--repair moves the sequence on", is_repaired=True
    ),
    Code.PENDING_WITHOUT_EDGE: Check(
        "PENDING jobs wait for nothing: nobody will release them",
        "--repair releases them, or ends them as their dependencies ended",
        is_repaired=True,
    ),
    Code.WAITS_FOR_NOTHING: Check(
        "PENDING jobs wait for a job that is gone",
        "not repaired, because nobody knows how it ended; holdfast cancel ID, and submit again what is still wanted",
    ),
    Code.END_UNTOLD: Check(
        "dependencies have ended, and nothing says that their dependents are to be told",
        "--repair leaves the mark that is missing, and tells them",
        is_repaired=True,
    ),
    Code.DEPENDENTS_FORGOTTEN: Check(
        "jobs do not know that others wait for them: those would not be told of their end",
        "--repair notes it",
        is_repaired=True,
    ),
    Code.OPEN_EDGE_LEFT: Check(
        "jobs that were released still have an open dependency", "--repair closes it", is_repaired=True
    ),
    Code.EDGE_TO_NOTHING: Check("dependencies name a job that is gone", "--repair removes them", is_repaired=True),
    Code.MARK_WITHOUT_JOB: Check("marks name a job that is gone", "--repair removes them", is_repaired=True),
    Code.KEY_WITHOUT_JOB: Check(
        "idempotency keys answer with a job that is gone", "--repair removes them", is_repaired=True
    ),
    Code.LABEL_WITHOUT_JOB: Check(
        "tags, notes or attempts belong to a job that is gone", "--repair removes them", is_repaired=True
    ),
    Code.LEASE_WITHOUT_WORKER: Check(
        "RUNNING jobs are leased to a worker that is gone, and were not reclaimed", _START, is_repaired=True
    ),
    Code.OVERDUE_PENDING: Check(
        "PENDING jobs were not told that a dependency ended, or are over their lifetime", _START, is_repaired=True
    ),
    Code.OVERDUE_DELAYED: Check("DELAYED jobs are past their time", _START, is_repaired=True),
    Code.OVERDUE_SCHEDULED: Check(
        "SCHEDULED jobs are passed by, or are over their lifetime",
        "look at the logs of the workers that serve the queue; --repair gives a job that is passed by a new place "
        "behind the others, and ends one that is over its lifetime",
        is_repaired=True,
    ),
    Code.OVERDUE_RUNNING: Check("RUNNING jobs are past the end of their lease", _START, is_repaired=True),
    Code.OVERDUE_RETRYING: Check("RETRYING jobs are past their time", _START, is_repaired=True),
    Code.OLD_TRANSACTION: Check(
        "transactions have been open for long: rows they hold are skipped, and no dead row can be removed",
        "end them: SELECT pg_terminate_backend(pid)",
        Severity.WARNING,
    ),
    Code.DEAD_ROWS: Check(
        "tables are full of dead rows",
        "look for old transactions, prepared ones and replication slots, then: VACUUM",
        Severity.WARNING,
    ),
    Code.INDEX_BLOAT: Check(
        "indexes are much larger than what they hold", "REINDEX INDEX CONCURRENTLY", Severity.WARNING
    ),
}

OVERDUE: Final = {
    State.PENDING: Code.OVERDUE_PENDING,
    State.DELAYED: Code.OVERDUE_DELAYED,
    State.SCHEDULED: Code.OVERDUE_SCHEDULED,
    State.RUNNING: Code.OVERDUE_RUNNING,
    State.RETRYING: Code.OVERDUE_RETRYING,
}
TIMED: Final = frozenset({*OVERDUE.values(), Code.LEASE_WITHOUT_WORKER})
"""What is found by a second look."""
REPAIRED: Final = frozenset(code for code, check in CHECKS.items() if check.is_repaired)

EXAMPLES: Final = 10
"""How many are named in a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What a store is asked. ``is_deep``: walk over all jobs, those that have ended too."""

    is_deep: bool = False
    newest: int = limits.EXAMINED_JOBS
    """Otherwise, of each table, this many of the newest rows."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a store has to say about one check."""

    code: Code
    count: int
    examples: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    found: tuple[Found, ...]
    checked: tuple[Code, ...]
    is_readable: bool = True
    """False: something must be put right before jobs can be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A job past its bound. It is the same one at a later look only if it has not moved in between."""

    job_id: UUID
    seq: int
    standing: Standing
    overdue_since: datetime
    version: int

    @property
    def code(self) -> Code:
        standing = self.standing
        match standing.state:
            case State.RUNNING if standing.owner is not Owner.KNOWN:
                return Code.LEASE_WITHOUT_WORKER
            case State.PENDING if not standing.waits:
                return Code.PENDING_WITHOUT_EDGE
            case State.PENDING if not standing.has_mark:
                return Code.END_UNTOLD
        return OVERDUE[standing.state]

    @property
    def name(self) -> tuple[UUID, State, datetime, int]:
        return self.job_id, self.standing.state, self.standing.since, self.version


@dataclass(frozen=True, slots=True)
class Look:
    """Which jobs are overdue at this moment."""

    now: datetime
    """By the store's clock."""
    overdue: tuple[Overdue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    severity: Severity
    count: int
    what: str
    advice: str
    examples: tuple[str, ...] = ()
    repaired: int = 0

    @property
    def is_wrong(self) -> bool:
        """Still, after what was repaired."""
        return self.severity is Severity.WRONG and self.repaired < self.count


def finding_of(found: Found) -> Finding:
    check = CHECKS[found.code]
    what = f"{check.what}: {found.detail}" if found.detail else check.what
    return Finding(
        code=found.code,
        severity=check.severity,
        count=found.count,
        what=what,
        advice=check.advice,
        examples=found.examples[:EXAMPLES],
    )


def overdue_of(
    candidates: Iterable[tuple[UUID, int, int, Standing]], *, now: datetime, timing: Timing, limit: int
) -> list[Overdue]:
    """Those of the candidates (ID, seq, lease version, standing) that are overdue, worst first, each once."""
    worst: dict[int, Overdue] = {}
    for job_id, seq, version, standing in candidates:
        since = overdue_since(standing, now=now, timing=timing)
        if since is None or (seq in worst and worst[seq].overdue_since <= since):
            continue
        worst[seq] = Overdue(job_id=job_id, seq=seq, standing=standing, overdue_since=since, version=version)
    return sorted(worst.values(), key=lambda one: (one.overdue_since, one.seq))[:limit]


def findings_of_overdue(overdue: Sequence[Overdue], *, now: datetime) -> list[Finding]:
    """Of what time should have moved: jobs that wait for nothing, or were not told, an examination finds by itself."""
    findings: list[Finding] = []
    for code in sorted({one.code for one in overdue} & TIMED):
        of_code = [one for one in overdue if one.code is code]
        seconds = max((now - one.overdue_since).total_seconds() for one in of_code)
        found = Found(code, len(of_code), tuple(str(one.job_id) for one in of_code), f"by {seconds:.0f} s at the most")
        findings.append(finding_of(found))
    return findings


def with_repairs(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """What was found at first, with how much of it is gone; and what came to light since."""
    left = {one.code: one for one in after}
    known = {one.code for one in before}
    repaired = [replace(one, repaired=max(0, one.count - _count(left.get(one.code)))) for one in before]
    return repaired + [one for one in after if one.code not in known]


def _count(finding: Finding | None) -> int:
    return finding.count if finding is not None else 0
