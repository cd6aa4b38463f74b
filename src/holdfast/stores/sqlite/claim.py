"""claim: a batch of leases in a few statements.

How it works: per queue, one walk along the claim index joined to the facts, from where the last one ended
(``cursors``); then one insert for all leases, and one delete for all the places. The transaction has the write lock, so
nothing can come between.

CLAIM-1. The order is queue as given, then priority, then place; paused queues and jobs over their lifetime are passed
    by.
CLAIM-2. A job that was ever reclaimed (fragile) is taken alone: the batch ends before it, or is it.
CLAIM-3. Attempt and version are counted here; the lease ends with its visibility timeout or with the job's lifetime,
    whichever is first.
CLAIM-4. A repeat first returns the leases that the claim's tokens already have.

What the worker is told is made from the rows after the commit: the write lock is held for the writing alone.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from typing import Any, Final
from uuid import UUID

from holdfast.core.commands import BUSY, Claim, ClaimIds, NotClaimed, lease_tokens
from holdfast.core.errors import WorkerNotFound
from holdfast.core.ids import uuid_of
from holdfast.core.job import ClaimedJob, Lease, from_columns
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite.cursors import FROM_START, ClaimCursors, LaneName
from holdfast.stores.sqlite.rows import PRIORITIES, duration_microseconds, from_microseconds, json_array
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs import claim as verbs

FEW_QUEUES: Final = 16
"""Above this number, a claim first asks which queues have jobs at all."""
INLINE_PAYLOAD_BYTES: Final = 1024
"""A larger one has a row of its own: all of a batch in one value could be more than SQLite takes."""

FACTS: Final = (
    *("seq", "version", "attempt", "is_fragile", "lifetime_ends_at", "visibility_seconds", "last_token", "priority"),
    *("type", "created_at", "max_attempts", "is_json", "encoded_options", "has_dependencies", "payload_bytes", "place"),
    *("token", "expires_at", "started_at"),
)
"""What a job's list has, in the order of sql/claim.sql; the last line is its lease."""
SEQ: Final = FACTS.index("seq")
VERSION: Final = FACTS.index("version")
IS_FRAGILE: Final = FACTS.index("is_fragile")
LIFETIME_ENDS_AT: Final = FACTS.index("lifetime_ends_at")
VISIBILITY: Final = FACTS.index("visibility_seconds")
PRIORITY: Final = FACTS.index("priority")
PAYLOAD_BYTES: Final = FACTS.index("payload_bytes")
PLACE: Final = FACTS.index("place")
TOKEN: Final = FACTS.index("token")


@dataclass(slots=True)
class Leased:
    """Jobs of one queue that were claimed, still as the file has them."""

    queue: str
    jobs: list[list[Any]]
    """The facts of each, and its lease: token, end and start."""
    ids: str
    payloads: str
    """The small ones, one after the other. Both as hexadecimal digits."""
    large_payloads: dict[int, bytes] = field(default_factory=dict)
    checkpoints: dict[int, bytes | None] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    leased: list[Leased]
    is_exhausted: bool = False
    """They were all that could be claimed."""
    passed: dict[LaneName, int] = field(default_factory=dict)
    """How far this claim came, for the cursors: up to here there is nothing left that it could claim."""


def claim(tx: SQLiteTransaction, claim: Claim, cursors: ClaimCursors) -> Answer:
    paused = _require_worker(tx, claim.owner)
    if claim.is_repeat and (again := _again(tx, claim.owner, lease_tokens(claim.nonce, claim.limit))):
        return Answer(again)
    queues = [queue for queue in _queues(tx, claim) if queue not in paused]
    answer = _find(tx, claim, queues, cursors)
    if answer.leased:
        _lease(tx, claim, answer.leased)
    if claim.types is not None:
        _note_passed(tx, claim, queues, answer)
    return answer


def claim_ids(tx: SQLiteTransaction, claim: ClaimIds) -> tuple[list[Leased], dict[UUID, NotClaimed]]:
    """The verb's way, which takes a few statements more: what was leased is found by its tokens."""
    paused = _require_worker(tx, claim.owner)
    tokens = lease_tokens(claim.nonce, len(claim.ids))
    if claim.is_repeat and (again := _again(tx, claim.owner, tokens)):
        return again, dict.fromkeys(claim.ids, BUSY)
    left = run_now(verbs.claim_ids(tx, claim, paused=paused))
    return _again(tx, claim.owner, tokens) if len(left) < len(claim.ids) else [], left


def _require_worker(tx: SQLiteTransaction, worker: UUID) -> set[str]:
    """Returns the paused queues."""
    for is_lost, paused in tx.rows("claim.worker", worker.bytes):
        if not is_lost:
            return set(json.loads(paused))
    raise WorkerNotFound(worker)


def _find(tx: SQLiteTransaction, claim: Claim, queues: Sequence[str], cursors: ClaimCursors) -> Answer:
    types = None if claim.types is None else json.dumps(claim.types)
    found: list[Leased] = []
    missing = claim.limit
    for queue in queues:
        starts = FROM_START if claim.types is None else cursors.starts(queue, claim.types)
        ((facts, ids, payloads),) = tx.rows(
            "claim.find", queue, tx.now_microseconds, missing, types, INLINE_PAYLOAD_BYTES, *starts
        )
        jobs = json.loads(facts)
        before_fragile = next((n for n, job in enumerate(jobs) if job[IS_FRAGILE]), None)
        if before_fragile is not None:
            del jobs[before_fragile or (0 if found else 1) :]
        if jobs:
            found.append(_with_rest(tx, Leased(queue, jobs, ids, payloads)))
            missing -= len(jobs)
        if before_fragile is not None or missing == 0:
            return Answer(found)
    return Answer(found, is_exhausted=True)


def _note_passed(tx: SQLiteTransaction, claim: Claim, queues: Sequence[str], answer: Answer) -> None:
    passed = answer.passed
    for leased in answer.leased:
        # In claim order: the last one of each lane stays.
        passed.update({(leased.queue, job[PRIORITY], claim.types): job[PLACE] for job in leased.jobs})
    if not answer.is_exhausted and not answer.leased:
        return
    for queue in queues:
        is_last = not answer.is_exhausted and queue == answer.leased[-1].queue
        looked_through = answer.leased[-1].jobs[-1][PRIORITY] if is_last else len(PRIORITIES)
        (left,) = tx.rows("claim.left", queue)
        for priority in range(looked_through):
            if left[priority] is not None:
                passed[queue, priority, claim.types] = left[priority]
        if is_last:
            return


def _queues(tx: SQLiteTransaction, claim: Claim) -> Sequence[str]:
    if len(claim.queues) <= FEW_QUEUES:
        return claim.queues
    with_jobs = {queue for (queue,) in tx.rows("claim.queues")}
    return [queue for queue in claim.queues if queue in with_jobs]


def _with_rest(tx: SQLiteTransaction, leased: Leased) -> Leased:
    """What few jobs have: a large payload, or a checkpoint of an earlier attempt."""
    large = [job[SEQ] for job in leased.jobs if job[PAYLOAD_BYTES] > INLINE_PAYLOAD_BYTES]
    if large:
        leased.large_payloads = dict(tx.rows("claim.payloads", json_array(large)))
    changed = [job[SEQ] for job in leased.jobs if job[VERSION] > 1]
    if changed:
        leased.checkpoints = dict(tx.rows("claim.checkpoints", json_array(changed)))
    return leased


def _lease(tx: SQLiteTransaction, claim: Claim, found: Sequence[Leased]) -> None:
    now = tx.now_microseconds
    jobs = [job for leased in found for job in leased.jobs]
    # Tokens go by seq, whatever the order in which the jobs were found.
    jobs.sort(key=_seq)
    # Nearly always one: the default.
    by_visibility: dict[str, list[list[Any]]] = {}
    for token, job in zip(lease_tokens(claim.nonce, len(jobs)), jobs, strict=True):
        job.append(token)
        by_visibility.setdefault(job[VISIBILITY], []).append(job)
    for text, alike in by_visibility.items():
        seconds = float(text)
        ends_at = now + duration_microseconds(seconds)
        tokens = b"".join([job[TOKEN].bytes for job in alike])
        tx.run(
            "claim.lease",
            json_array([job[SEQ] for job in alike]),
            tokens,
            now,
            claim.owner.bytes,
            seconds,
            ends_at - now,
        )
        for job in alike:
            job += (min(ends_at, job[LIFETIME_ENDS_AT]), now)
    tx.run("claim.take", json_array([job[SEQ] for job in jobs]))
    for leased in found:
        tx.tally[leased.queue, State.SCHEDULED] -= len(leased.jobs)
        tx.tally[leased.queue, State.RUNNING] += len(leased.jobs)


def _seq(job: list[Any]) -> int:
    return job[SEQ]  # type: ignore[no-any-return]


def _again(tx: SQLiteTransaction, owner: UUID, tokens: Sequence[UUID]) -> list[Leased]:
    """One by one, in the order of their tokens."""
    again = []
    for queue, facts, job_id, payload in tx.rows_of_bytes(
        "claim.again", [token.bytes for token in tokens], owner.bytes, INLINE_PAYLOAD_BYTES
    ):
        job = json.loads(facts)
        job[TOKEN] = UUID(hex=job[TOKEN])
        again.append(_with_rest(tx, Leased(queue, [job], job_id, payload)))
    return sorted(again, key=lambda leased: leased.jobs[0][TOKEN])


def claimed(leased: Sequence[Leased], owner: UUID) -> list[ClaimedJob]:
    """What the worker is told."""
    return [job for portion in leased for job in _claimed(portion, owner)]


class _Times(dict[int, datetime]):
    """Jobs that were submitted or claimed together share theirs."""

    def __missing__(self, microseconds: int) -> datetime:
        self[microseconds] = time = from_microseconds(microseconds)
        return time


def _claimed(leased: Leased, owner: UUID) -> Iterator[ClaimedJob]:
    column = dict(zip(FACTS, zip(*leased.jobs, strict=True), strict=True))
    ids = bytes.fromhex(leased.ids)
    time_of = _Times().__getitem__
    lease = {
        **column,
        "job_id": [uuid_of(int.from_bytes(ids[start : start + 16])) for start in range(0, len(ids), 16)],
        "owner": repeat(owner),
        "expires_at": map(time_of, column["expires_at"]),
    }
    job: dict[str, Iterable[Any]] = {
        **column,
        "lease": from_columns(Lease, lease),
        "queue": repeat(leased.queue),
        "priority": map(PRIORITIES.__getitem__, column["priority"]),
        "payload": map(Payload, _payloads(leased, column["payload_bytes"]), map(bool, column["is_json"])),
        "created_at": map(time_of, column["created_at"]),
        "started_at": map(time_of, column["started_at"]),
        "has_dependencies": map(bool, column["has_dependencies"]),
        "previous_attempt_id": [UUID(hex=token) if token else None for token in column["last_token"]],
        "checkpoint": map(leased.checkpoints.get, column["seq"]),
        "was_reclaimed": map(bool, column["is_fragile"]),
    }
    return from_columns(ClaimedJob, job)


def _payloads(leased: Leased, sizes: Iterable[int]) -> Iterator[bytes]:
    small, end = bytes.fromhex(leased.payloads), 0
    for job, size in zip(leased.jobs, sizes, strict=True):
        if size > INLINE_PAYLOAD_BYTES:
            yield leased.large_payloads[job[SEQ]]
        else:
            start, end = end, end + size
            yield small[start:end]
