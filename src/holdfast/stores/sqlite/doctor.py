"""An examination of the file, in one read transaction; repairs under the write lock.

A read transaction sees one moment, and there is one writer at a time: what does not agree is wrong. Times in the rows
are those of the moment before their commit, so nothing comes to light late.
"""

import json
from collections.abc import Collection, Iterator
from datetime import timedelta
from sqlite3 import Cursor, DatabaseError
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.examination import EXAMPLES, Code, Examination, Examined, Found, Look, overdue_of
from holdfast.core.liveness import Owner, Standing, Timing
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import from_microseconds, from_time
from holdfast.stores.sqlite.statements import SQL, bound
from holdfast.stores.sqlite.statements import execute as run
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.repair import BY_JOBS, REPAIR_BATCH

CHECKS: Final = (
    Code.IN_TWO_TABLES,
    Code.IN_NO_TABLE,
    Code.ROW_WITHOUT_JOB,
    Code.SEQUENCE_BEHIND,
    Code.PENDING_WITHOUT_EDGE,
    Code.WAITS_FOR_NOTHING,
    Code.END_UNTOLD,
    Code.DEPENDENTS_FORGOTTEN,
    Code.OPEN_EDGE_LEFT,
    Code.EDGE_TO_NOTHING,
    Code.MARK_WITHOUT_JOB,
    Code.KEY_WITHOUT_JOB,
    Code.LABEL_WITHOUT_JOB,
)
"""Each is the part of its name in ``sql/doctor.sql``."""
STATEMENTS: Final = {
    Code.SEQUENCE_BEHIND: ("sequence",),
    Code.EDGE_TO_NOTHING: ("edges",),
    Code.KEY_WITHOUT_JOB: ("keys",),
    Code.LABEL_WITHOUT_JOB: ("tags", "notes", "attempts"),
}
"""What puts right what is not put right job by job."""
ALL: Final = -1
LANE_JOBS: Final = 100
"""How many jobs of each lane are looked at: those that a claim would take first."""
Candidates = Iterator[tuple[UUID, int, int, Standing]]


def examine(cursor: Cursor, examination: Examination, *, now: int) -> Examined:
    newest = ALL if examination.is_deep else examination.newest
    found = [_found(cursor, code, newest, now) for code in CHECKS]
    found.append(_tally(cursor, newest))
    checked = [*CHECKS, Code.TALLY_WRONG]
    if examination.is_deep:
        found.append(_damage(cursor))
        checked.append(Code.FILE_DAMAGED)
    return Examined(tuple(one for one in found if one.count), tuple(checked))


def _found(cursor: Cursor, code: Code, newest: int, now: int) -> Found:
    sql = SQL["doctor.summed"].replace("{check}", SQL[f"doctor.{code}"]).replace("{examples}", str(EXAMPLES))
    count, examples = cursor.execute(sql, bound(sql, (newest, now)) if "?1" in sql else ()).fetchone()
    return Found(code, count, tuple(_shown(example) for example in json.loads(examples)))


def _shown(example: str) -> str:
    """An ID comes as 32 digits, which is all that SQLite can write of 16 bytes."""
    return str(UUID(example)) if len(example) == 32 and example.isalnum() else example


def _tally(cursor: Cursor, newest: int) -> Found:
    rows = run(cursor, "doctor.tally_wrong", newest).fetchall()
    examples = [f"{queue} {state}: {tallied} counted, {jobs} there" for queue, state, jobs, tallied in rows]
    return Found(Code.TALLY_WRONG, len(rows), tuple(examples[:EXAMPLES]))


def _damage(cursor: Cursor) -> Found:
    try:
        lines = [str(row[0]) for row in cursor.execute(f"PRAGMA quick_check({EXAMPLES})")]
    except DatabaseError as error:
        # Some damage ends the search for damage.
        lines = [str(error)]
    return Found(Code.FILE_DAMAGED, 0 if lines == ["ok"] else len(lines), tuple(lines))


def repair(tx: SQLiteTransaction, code: Code, examination: Examination, seqs: Collection[int]) -> None:
    """Under the write lock nobody else changes anything, so what is found here stays true until it was put right."""
    newest = ALL if examination.is_deep else examination.newest
    if code is Code.TALLY_WRONG:
        for queue, state, jobs, tallied in tx.rows("doctor.tally_wrong", newest):
            tx.tally[queue, state] += jobs - tallied
    elif code in BY_JOBS:
        broken = seqs if code is Code.OVERDUE_SCHEDULED else _broken(tx, code, newest)
        ordered = sorted(broken)
        for start in range(0, len(ordered), REPAIR_BATCH):
            run_now(BY_JOBS[code](tx, ordered[start : start + REPAIR_BATCH]))
    else:
        for name in STATEMENTS[code]:
            tx.run(f"doctor_repair.{name}")


def _broken(tx: SQLiteTransaction, code: Code, newest: int) -> set[int]:
    return {row[0] for row in tx.rows(f"doctor.{code}", newest, tx.now_microseconds)}


# time


def find_overdue(cursor: Cursor, timing: Timing, *, now: int) -> Look:
    moment = from_microseconds(now)
    candidates = _candidates(cursor, timing, now)
    return Look(moment, tuple(overdue_of(candidates, now=moment, timing=timing, limit=limits.MAX_OVERDUE_JOBS)))


def _candidates(cursor: Cursor, timing: Timing, now: int) -> Candidates:
    limit, newest = limits.MAX_OVERDUE_JOBS, limits.EXAMINED_JOBS
    late, timeout = _microseconds(timing.late_seconds), _microseconds(timing.worker_timeout_seconds)
    for job_id, seq, version, state, since, ends_at, due_at in run(cursor, "doctor_overdue.due", now, limit):
        yield _candidate(job_id, seq, version, state=State(state), since=since, ends_at=ends_at, due_at=due_at)
    for job_id, seq, version, state, since, ends_at in run(cursor, "doctor_overdue.lifetimes", now, limit):
        yield _candidate(job_id, seq, version, state=State(state), since=since, ends_at=ends_at)
    for job_id, seq, version, since, ends_at, expires_at, is_lost, seen_at in run(
        cursor, "doctor_overdue.leases", now, limit, now - timeout
    ):
        owner = Owner.UNKNOWN if is_lost is None else Owner.LOST if is_lost else Owner.KNOWN
        yield _candidate(
            job_id, seq, version, state=State.RUNNING, since=since, ends_at=ends_at, owner=owner,
            expires_at=expires_at, owner_seen_at=seen_at,
        )  # fmt: skip
    for job_id, seq, version, since, ends_at, waits, ended_at, has_mark in run(
        cursor, "doctor_overdue.untold", now, limit, newest
    ):
        yield _candidate(
            job_id, seq, version, state=State.PENDING, since=since, ends_at=ends_at, waits=bool(waits),
            dependency_ended_at=ended_at, has_mark=bool(has_mark),
        )  # fmt: skip
    for job_id, seq, version, since, ends_at in run(
        cursor, "doctor_overdue.passed_by", now, limit, LANE_JOBS, now - late, now - timeout, late
    ):
        yield _candidate(
            job_id, seq, version, state=State.SCHEDULED, since=since, ends_at=ends_at, is_passed_by=True
        )  # fmt: skip


def _candidate(
    job_id: bytes, seq: int, version: int, *, since: int, ends_at: int, **facts: Any
) -> tuple[UUID, int, int, Standing]:
    facts.update({name: from_time(facts[name]) for name in _TIMES if name in facts})
    standing = Standing(since=from_microseconds(since), lifetime_ends_at=from_microseconds(ends_at), **facts)
    return UUID(bytes=job_id), seq, version, standing


_TIMES: Final = ("due_at", "expires_at", "owner_seen_at", "dependency_ended_at")


def _microseconds(seconds: float) -> int:
    return timedelta(seconds=seconds) // timedelta(microseconds=1)
