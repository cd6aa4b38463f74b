"""Between rows and domain objects: the only place that knows both."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final
from uuid import UUID

from holdfast.core.batches import JobColumns
from holdfast.core.commands import CronSlot, NewJob
from holdfast.core.dependencies import Dependency, DependencyKind, Edge
from holdfast.core.failures import Category, Failure
from holdfast.core.job import COLUMNS, Attempt, ClaimedJob, Job, Lease, Progress, Record, from_columns, given_from
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State

Row = Mapping[str, Any]

PRIORITIES = tuple(Priority)


def encode_failure(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    data = {name: value for name in ("message", "error_type", "code", "trace") if (value := getattr(failure, name))}
    return json.dumps({"category": failure.category, **data}, ensure_ascii=False)


def decode_failure(text: str | None) -> Failure | None:
    if text is None:
        return None
    data = json.loads(text)
    return Failure(**{**data, "category": Category(data["category"])})


def record_from(row: Row) -> Record:
    """From lock.sql. A result is never loaded: no decision needs it."""
    created_at: datetime = row["created_at"]
    return Record(
        seq=row["seq"],
        id=row["id"],
        type=row["type"],
        queue=row["queue"],
        priority=PRIORITIES[row["priority"]],
        depth=row["depth"],
        max_attempts=row["max_attempts"],
        visibility_seconds=row["visibility_seconds"],
        lifetime_seconds=row["lifetime_seconds"],
        lifetime_ends_at=row["lifetime_ends_at"] or created_at,
        created_at=created_at,
        run_at=row["run_at"],
        state=State(row["state"]),
        attempt=row["attempt"],
        version=row["version"],
        replays=row["replays"],
        is_fragile=row["is_fragile"],
        has_dependents=row["has_dependents"],
        due_at=row["due_at"],
        updated_at=row["updated_at"],
        scheduled_at=row["scheduled_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        token=row["token"],
        owner=row["owner"],
        expires_at=row["expires_at"],
        cancel_requested=row["cancel_requested"],
        last_token=row["last_token"],
        failure=decode_failure(row["failure"]),
        ended_by=row["ended_by"],
        spawned_by=row["spawned_by"],
    )


def in_claim_order(rows: Sequence[Row], queues: Sequence[str]) -> Sequence[Row]:
    """As claim.sql answered them: by queue, in the order of the claim, then by priority and place."""
    if len(queues) == 1:
        return sorted(rows, key=itemgetter("priority", "place"))
    order = {queue: n for n, queue in enumerate(queues)}
    return sorted(rows, key=lambda row: (order[row["queue"]], row["priority"], row["place"]))


class _Expiries(dict[float, datetime]):
    """When leases end that began at one moment, by their visibility timeout."""

    def __init__(self, started_at: datetime) -> None:
        super().__init__()
        self._started_at = started_at

    def __missing__(self, visibility_seconds: float) -> datetime:
        self[visibility_seconds] = expires_at = self._started_at + timedelta(seconds=visibility_seconds)
        return expires_at


def all_claimed_from(rows: Sequence[Row], owner: UUID) -> list[ClaimedJob]:
    """What one claim answered: they all started at the same moment, which need not stand in every row."""
    if not rows:
        return []
    column = dict(zip(rows[0].keys(), zip(*(row.values() for row in rows), strict=True), strict=True))
    started_at = next(moment for moment in column["started_at"] if moment is not None)
    expiries = _Expiries(started_at)
    ends = zip(column["expires_at"], column["visibility_seconds"], strict=True)
    lease = {
        "job_id": column["id"],
        "seq": column["job"],
        "token": column["token"],
        "version": column["version"],
        "owner": repeat(owner),
        "expires_at": [given or expiries[visibility_seconds] for given, visibility_seconds in ends],
    }
    job: dict[str, Iterable[Any]] = {
        **column,
        "lease": from_columns(Lease, lease),
        "priority": map(PRIORITIES.__getitem__, column["priority"]),
        "payload": map(Payload, column["payload"], column["is_json"]),
        "started_at": repeat(started_at),
        "previous_attempt_id": column["last_token"],
        "encoded_options": column["options"],
        "was_reclaimed": column["is_fragile"],
    }
    return list(from_columns(ClaimedJob, job))


def job_from(row: Row, dependencies: Sequence[Dependency]) -> Job:
    lease = None
    if row["token"] is not None:
        lease = Lease(
            job_id=row["id"],
            seq=row["seq"],
            token=row["token"],
            version=row["version"],
            owner=row["owner"],
            expires_at=row["expires_at"],
        )
    return Job(
        id=row["id"],
        seq=row["seq"],
        priority=PRIORITIES[row["priority"]],
        state=State(row["state"]),
        attempt=row["attempt"],
        replays=row["replays"],
        depth=row["depth"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        run_at=row["run_at"],
        due_at=row["due_at"],
        scheduled_at=row["scheduled_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        lifetime_ends_at=row["lifetime_ends_at"],
        dependencies=tuple(dependencies),
        lease=lease,
        lease_version=row["version"],
        cancel_requested=row["cancel_requested"],
        progress=None if row["percent"] is None else Progress(percent=row["percent"], message=row["message"]),
        checkpoint=row["checkpoint"],
        result=row["result"],
        failure=decode_failure(row["failure"]),
        ended_by=row["ended_by_id"],
        last_attempt_id=row["last_token"],
        spawned_by=row["spawned_by_id"],
        **given_from(row),
    )


def attempt_from(row: Row, job_id: UUID) -> Attempt:
    failure = decode_failure(row["failure"])
    assert failure is not None
    return Attempt(
        id=row["token"],
        job_id=job_id,
        number=row["number"],
        version=row["version"],
        owner=row["owner"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        failure=failure,
        previous_id=row["previous"],
        is_ended_by_holder=row["is_ended_by_holder"],
    )


def edge_from(row: Row) -> Edge:
    return Edge(row["child"], row["parent"], DependencyKind(row["kind"]), row["is_open"])


_COLUMNS: Final = [name for name in COLUMNS if name not in ("id", "payload")]
_settings: Final = attrgetter(*map(COLUMNS.__getitem__, _COLUMNS))
"""What jobs that differ in ID and payload alone have in common."""


def alike_insert(jobs: JobColumns) -> list[Any]:
    """The parameters of submit.alike behind the channel."""
    return [jobs.ids, [payload.data for payload in jobs.payloads], *_settings(jobs.first)]


def one_insert(job: NewJob) -> list[Any]:
    """The same for one of them."""
    return [job.id, job.payload.data, *_settings(job)]


def each_insert(jobs: Sequence[NewJob]) -> list[Any]:
    """The parameters of submit.each behind the clock."""
    ids, payloads = [job.id for job in jobs], [job.payload.data for job in jobs]
    return [ids, payloads, [job.delay_seconds for job in jobs], *_columns(jobs)]


def verbs_insert(jobs: Sequence[tuple[Record, NewJob]]) -> list[Any]:
    """The parameters of write.job. A record has the priority that comes of its dependencies, too."""
    given = [replace(job, priority=record.priority) for record, job in jobs]
    return [
        [record.seq for record, _ in jobs],
        [record.depth for record, _ in jobs],
        [record.created_at for record, _ in jobs],
        [record.run_at for record, _ in jobs],
        [record.spawned_by for record, _ in jobs],
        [job.id for job in given],
        [job.payload.data for job in given],
        *_columns(given),
    ]


def _columns(jobs: Sequence[NewJob]) -> list[list[Any]]:
    return list(map(list, zip(*map(_settings, jobs), strict=True)))


def slot_from(row: Row) -> CronSlot:
    return CronSlot(name=row["name"], slot=row["slot"], job_id=row["job_id"], fired_at=row["fired_at"])
