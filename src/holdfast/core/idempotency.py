"""Submitting twice with one key makes one job.

A key is scoped by job type, answers for its job in any state, and its window counts from that job's ``created_at``.
"Same payload" is the same digest; other options do not count. A key given to a whole batch is suffixed for each
item (``key#0`` …), for each node of a workflow (``key#node``): a repeat finds all of them, or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from holdfast.core.errors import IdempotencyConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """What a submit asks of the key table: one row a keyed job."""

    job_type: str
    key: str
    job_id: UUID
    digest: bytes
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolder:
    """Who has the key now."""

    job_id: UUID
    digest: bytes
    expires_at: datetime

    def is_valid(self, now: datetime) -> bool:
        return now < self.expires_at


def item_key(group_key: str, suffix: int | str) -> str:
    return f"{group_key}#{suffix}"


def existing_job(claim: KeyClaim, holder: KeyHolder | None, *, now: datetime) -> UUID | None:
    """The job that this key already stands for, if its window is open; IdempotencyConflict on another payload."""
    if holder is None or not holder.is_valid(now):
        return None
    if holder.digest != claim.digest:
        raise IdempotencyConflict(
            job_type=claim.job_type,
            key=claim.key,
            existing_id=holder.job_id,
            problem="its payload is another one",
        )
    return holder.job_id


def require_all_or_none(claims: Sequence[KeyClaim], existing: Sequence[UUID | None]) -> None:
    """A batch submitted under one key is either new or a repeat of the whole."""
    found = [(claim, job_id) for claim, job_id in zip(claims, existing, strict=True) if job_id is not None]
    if found and len(found) < len(claims):
        claim, job_id = found[0]
        raise IdempotencyConflict(
            job_type=claim.job_type,
            key=claim.key,
            existing_id=job_id,
            problem=f"only {len(found)} of the batch's {len(claims)} keys are taken, so this is not a repeat of it",
        )
