"""claim: a batch of leases in a few statements.

How it works: per queue, one walk along the claim index joined to the facts; then one insert for all leases, and one
delete for all the places. The transaction has the write lock, so nothing can come between.

C1. The order is queue as given, then priority, then place; paused queues and jobs over their lifetime are passed by.
C2. A job that was ever reclaimed (fragile) is taken alone: the batch ends before it, or is it.
C3. Attempt and version are counted here; the lease ends with its visibility timeout or with the job's lifetime,
    whichever is first.
C4. A repeat first returns the leases that the claim's tokens already have.

What the worker is told is made from the rows after the commit: the write lock is held for the writing alone.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from holdfast.core.bursts import uncollected
from holdfast.core.commands import Claim, lease_tokens
from holdfast.core.errors import WorkerNotFound
from holdfast.core.ids import uuid_of
from holdfast.core.job import ClaimedJob, Lease
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import (
    PRIORITIES,
    Row,
    duration_microseconds,
    from_bytes,
    from_microseconds,
    json_array,
)
from holdfast.stores.sqlite.transaction import SQLiteTransaction

FEW_QUEUES: Final = 16
"""Above this number, a claim first asks which queues have jobs at all."""


@dataclass(slots=True)
class Leased:
    """A job that was claimed, still as rows have it."""

    row: Row
    queue: str
    token: UUID
    expires_at: int
    started_at: int


def claim(tx: SQLiteTransaction, claim: Claim) -> tuple[list[Leased], bool]:
    """Returns the leases, and whether they were all that could be claimed."""
    paused = _require_worker(tx, claim.owner)
    if claim.is_repeat and (again := _again(tx, claim)):
        return again, False
    found, is_exhausted = _find(tx, claim, paused)
    return _lease(tx, claim, found), is_exhausted


def _require_worker(tx: SQLiteTransaction, worker: UUID) -> set[str]:
    """Returns the paused queues."""
    for is_lost, paused in tx.rows("claim.worker", worker.bytes):
        if not is_lost:
            return set(json.loads(paused))
    raise WorkerNotFound(worker)


def _find(tx: SQLiteTransaction, claim: Claim, paused: set[str]) -> tuple[list[tuple[str, Row]], bool]:
    types = None if claim.types is None else json.dumps(claim.types)
    found: list[tuple[str, Row]] = []
    for queue in _queues(tx, claim):
        if queue in paused:
            continue
        rows = tx.rows("claim.find", queue, tx.now_microseconds, claim.limit - len(found), types)
        for row in rows:
            is_fragile = row[3]
            if is_fragile:
                return found or [(queue, row)], False
            found.append((queue, row))
        if len(found) == claim.limit:
            return found, False
    return found, True


def _queues(tx: SQLiteTransaction, claim: Claim) -> Sequence[str]:
    if len(claim.queues) <= FEW_QUEUES:
        return claim.queues
    with_jobs = {queue for (queue,) in tx.rows("claim.queues")}
    return [queue for queue in claim.queues if queue in with_jobs]


def _lease(tx: SQLiteTransaction, claim: Claim, found: Sequence[tuple[str, Row]]) -> list[Leased]:
    if not found:
        return []
    now = tx.now_microseconds
    seqs = sorted(row[0] for _, row in found)
    token_of = dict(zip(seqs, lease_tokens(claim.nonce, len(found)), strict=True))
    # Nearly always one: the default.
    seqs_by_visibility: dict[float, list[int]] = {}
    for _, row in found:
        seqs_by_visibility.setdefault(row[5], []).append(row[0])
    visibilities = {seconds: duration_microseconds(seconds) for seconds in seqs_by_visibility}
    for seconds, alike in seqs_by_visibility.items():
        tokens = b"".join([token_of[seq].bytes for seq in alike])
        tx.run("claim.lease", json_array(alike), tokens, now, claim.owner.bytes, seconds, visibilities[seconds])
    tx.run("claim.take", json_array(seqs))
    for queue, jobs in Counter(queue for queue, _ in found).items():
        tx.tally[queue, State.SCHEDULED] -= jobs
        tx.tally[queue, State.RUNNING] += jobs
    return [Leased(row, queue, token_of[row[0]], min(now + visibilities[row[5]], row[4]), now) for queue, row in found]


def _again(tx: SQLiteTransaction, claim: Claim) -> list[Leased]:
    tokens = [token.bytes for token in lease_tokens(claim.nonce, claim.limit)]
    leased = []
    for row in tx.rows_of_bytes("claim.again", tokens, claim.owner.bytes):
        *facts, queue, token, expires_at, started_at = row
        leased.append(Leased(tuple(facts), queue, UUID(bytes=token), expires_at, started_at))
    return sorted(leased, key=lambda one: one.token)


def claimed(leased: Sequence[Leased], owner: UUID) -> list[ClaimedJob]:
    """What the worker is told."""
    # Jobs that were submitted or claimed together share their times.
    distinct = {time for one in leased for time in (one.row[10], one.expires_at, one.started_at)}
    times = {time: from_microseconds(time) for time in distinct}
    with uncollected():
        return [_claimed(one, owner, times) for one in leased]


def _claimed(one: Leased, owner: UUID, times: dict[int, datetime]) -> ClaimedJob:
    # By position, rows and fields alike: one is made for every job that runs, and names take longer than all the rest.
    # fmt: off
    (seq, version, attempt, _, _, _, last_token, priority,
     job_id, job_type, created_at, max_attempts, is_json, options,
     has_dependencies, checkpoint, payload) = one.row
    # fmt: on
    return ClaimedJob(
        Lease(uuid_of(int.from_bytes(job_id)), seq, one.token, version, owner, times[one.expires_at]),
        job_type,
        one.queue,
        PRIORITIES[priority],
        Payload(payload, bool(is_json)),
        attempt,
        max_attempts,
        times[created_at],
        times[one.started_at],
        bool(has_dependencies),
        from_bytes(last_token),
        checkpoint,
        options,
    )
