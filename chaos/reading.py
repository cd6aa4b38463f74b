"""What is read from a store's tables at the end, as plain facts: the same for both stores."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from chaos.history import Audit, Edge, LeaseEvent, SpentAttempt, Stored, StoredJob


def put_right(seconds: float | None, *, about: float, jump_seconds: float) -> float | None:
    """A time of a clock that jumps by so much, forward and back, as a clock that stays would have told it.

    ``about``: some time of the run, which must be a good deal shorter than a jump.
    """
    if seconds is None:
        return None
    jumps = round((float(seconds) - about) / jump_seconds)
    return float(seconds) - jumps * jump_seconds


def uuid_of(data: bytes | None) -> UUID | None:
    return None if data is None else UUID(bytes=data)


def seconds_of(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


def stored_of(
    *,
    ids: Mapping[int, UUID],
    budgets: Mapping[int, int],
    places: Mapping[str, Sequence[tuple[Any, ...]]],
    ended: Sequence[tuple[Any, ...]],
    attempts: Sequence[tuple[Any, ...]],
    audit: Sequence[tuple[Any, ...]],
    edges: Sequence[tuple[Any, ...]],
) -> Stored:
    where: defaultdict[int, list[str]] = defaultdict(list)
    for place, rows in places.items():
        for (seq,) in rows:
            where[seq].append(place)
    ends = {row[0]: row[1:] for row in ended}
    return Stored(
        jobs={job_id: _job(job_id, budgets[seq], tuple(where[seq]), ends.get(seq)) for seq, job_id in ids.items()},
        attempts=[_attempt(ids, row) for row in attempts],
        audit=[Audit(row[0], LeaseEvent(row[1]), ids[row[2]], *row[3:]) for row in audit],
        edges=[Edge(ids[child], ids[parent]) for child, parent in edges],
    )


def _job(job_id: UUID, budget: int, places: tuple[str, ...], end: tuple[Any, ...] | None) -> StoredJob:
    if end is None:
        return StoredJob(id=job_id, max_attempts=budget, places=places)
    state, attempt, token, result, started_at, ended_at = end
    return StoredJob(
        id=job_id,
        max_attempts=budget,
        places=places,
        state=state,
        attempt=attempt,
        token=token,
        result=result,
        started_at=None if started_at is None else float(started_at),
        ended_at=float(ended_at),
    )


def _attempt(ids: Mapping[int, UUID], row: tuple[Any, ...]) -> SpentAttempt:
    seq, number, token, started_at, ended_at, failure, is_ended_by_holder = row
    words = json.loads(failure)
    return SpentAttempt(
        job_id=ids[seq],
        number=number,
        token=token,
        started_at=float(started_at),
        ended_at=float(ended_at),
        code=words.get("code") or "",
        message=words.get("message") or "",
        is_ended_by_holder=bool(is_ended_by_holder),
    )
