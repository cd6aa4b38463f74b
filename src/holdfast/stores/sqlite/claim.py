"""claim: a batch of leases in a few statements.

How it works: per queue, one walk along the claim index joined to the facts; then one insert a lease, and one delete for
all the places. The transaction has the write lock, so nothing can come between.

C1. The order is queue as given, then priority, then place; paused queues and jobs over their lifetime are passed by.
C2. A job that was ever reclaimed (fragile) is taken alone: the batch ends before it, or is it.
C3. Attempt and version are counted here; the lease ends with its visibility timeout or with the job's lifetime,
    whichever is first.
C4. A repeat first returns the leases that the claim's tokens already have.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from holdfast.core.commands import Claim, lease_tokens
from holdfast.core.errors import WorkerNotFound
from holdfast.core.job import ClaimedJob, Lease
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import PRIORITIES, Row, duration_microseconds, from_bytes, from_microseconds
from holdfast.stores.sqlite.transaction import SQLiteTransaction

FEW_QUEUES: Final = 16
"""Above this number, a claim first asks which queues have jobs at all."""


def claim(tx: SQLiteTransaction, claim: Claim) -> tuple[list[ClaimedJob], bool]:
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
            is_fragile = row[5]
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


def _lease(tx: SQLiteTransaction, claim: Claim, found: Sequence[tuple[str, Row]]) -> list[ClaimedJob]:
    if not found:
        return []
    now, started_at, owner = tx.now_microseconds, tx.now, claim.owner.bytes
    leases: list[Row] = []
    claimed: list[ClaimedJob] = []
    visibilities: dict[float, int] = {}
    for token, (queue, row) in zip(lease_tokens(claim.nonce, len(found)), found, strict=True):
        # fmt: off
        (seq, priority, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
         last_token, job_id, job_type, created_at, max_attempts, visibility_seconds, is_json, options,
         has_dependencies, checkpoint, payload) = row
        # fmt: on
        visibility = visibilities.get(visibility_seconds)
        if visibility is None:
            visibility = visibilities[visibility_seconds] = duration_microseconds(visibility_seconds)
        expires_at = min(now + visibility, lifetime_ends_at)
        # fmt: off
        leases.append((
            seq, token.bytes, owner, queue, version, attempt, replays, is_fragile, has_dependents, False,
            scheduled_at, now, expires_at, lifetime_ends_at, visibility_seconds, last_token,
        ))
        # fmt: on
        claimed.append(
            ClaimedJob(
                lease=Lease(
                    job_id=UUID(bytes=job_id),
                    seq=seq,
                    token=token,
                    version=version,
                    owner=claim.owner,
                    expires_at=from_microseconds(expires_at),
                ),
                type=job_type,
                queue=queue,
                priority=PRIORITIES[priority],
                payload=Payload(payload, bool(is_json)),
                attempt=attempt,
                max_attempts=max_attempts,
                created_at=from_microseconds(created_at),
                started_at=started_at,
                has_dependencies=bool(has_dependencies),
                previous_attempt_id=from_bytes(last_token),
                checkpoint=checkpoint,
                encoded_options=options,
            )
        )
    tx.run("claim.take", json.dumps([row[0] for _, row in found]))
    tx.run_many("write.running", leases)
    for queue, jobs in Counter(queue for queue, _ in found).items():
        tx.tally[queue, State.SCHEDULED] -= jobs
        tx.tally[queue, State.RUNNING] += jobs
    return claimed


def _again(tx: SQLiteTransaction, claim: Claim) -> list[ClaimedJob]:
    tokens = [token.bytes for token in lease_tokens(claim.nonce, claim.limit)]
    rows = tx.rows_of_bytes("claim.again", tokens, claim.owner.bytes)
    return [_claimed_again(row, claim.owner) for row in sorted(rows, key=lambda row: row[0])]


def _claimed_again(row: Row, owner: UUID) -> ClaimedJob:
    # fmt: off
    (token, seq, priority, queue, version, attempt, started_at, expires_at, last_token, job_id, job_type, created_at,
     max_attempts, is_json, options, has_dependencies, checkpoint, payload) = row
    # fmt: on
    return ClaimedJob(
        lease=Lease(
            job_id=UUID(bytes=job_id),
            seq=seq,
            token=UUID(bytes=token),
            version=version,
            owner=owner,
            expires_at=from_microseconds(expires_at),
        ),
        type=job_type,
        queue=queue,
        priority=PRIORITIES[priority],
        payload=Payload(payload, bool(is_json)),
        attempt=attempt,
        max_attempts=max_attempts,
        created_at=from_microseconds(created_at),
        started_at=from_microseconds(started_at),
        has_dependencies=bool(has_dependencies),
        previous_attempt_id=from_bytes(last_token),
        checkpoint=checkpoint,
        encoded_options=options,
    )
