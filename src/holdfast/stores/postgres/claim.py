"""claim: a batch of leases in one statement, which starts where the cursors say (``cursors``); or by IDs, in another.

What they guarantee stands at their heads (``sql/claim.sql``). A repeat first returns the leases
that the claim's tokens already have.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from holdfast.core.commands import BUSY, Claim, ClaimIdAnswer, ClaimIds, NotClaimed, WhyNot, lease_tokens
from holdfast.core.errors import WorkerNotFound
from holdfast.core.job import ClaimedJob
from holdfast.stores.postgres.cursors import Asked, ClaimCursors
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.floors import Floors
from holdfast.stores.postgres.rows import Row, all_claimed_from, in_claim_order


class Claims:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.cursors = ClaimCursors()
        self.floors = Floors(database, self.cursors)

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        if claim.is_repeat and (again := await self._again(claim, claim.limit)):
            return again
        asked = self._ask(claim)
        rows = await self._claim_rows(claim, asked)
        if not rows and asked.is_ahead:
            rows = await self._claim_rows(claim, self._ask(claim))
        self.floors.start()
        return all_claimed_from(rows, claim.owner)

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        if claim.is_repeat and (again := await self._again(claim, len(claim.ids))):
            jobs = {job.id: job for job in again}
            return [jobs.get(job_id, BUSY) for job_id in claim.ids]
        rows = await self._database.fetch(
            self._database.sql["claim.lease_ids"],
            self._database.now,
            claim.owner,
            list(claim.ids),
            list(claim.queues),
            list(claim.types) if claim.types is not None else None,
            token_stem(claim.nonce),
        )
        if not rows[0]["is_known"]:
            raise WorkerNotFound(claim.owner)
        all_asked = next(row for row in rows if row["whys"] is not None)
        jobs = {job.id: job for job in all_claimed_from([row for row in rows if row["job"] is not None], claim.owner)}
        return [
            jobs.get(job_id) or _not_claimed(why, due_at, now=all_asked["now"])
            for job_id, why, due_at in zip(claim.ids, all_asked["whys"], all_asked["due_ats"], strict=True)
        ]

    async def _again(self, claim: Claim | ClaimIds, limit: int) -> list[ClaimedJob]:
        """The leases that a claim got whose answer was lost."""
        tokens = lease_tokens(claim.nonce, limit)
        rows = await self._database.fetch(self._database.sql["claim.again"], claim.owner, tokens)
        return all_claimed_from(rows, claim.owner)

    def _ask(self, claim: Claim) -> Asked:
        return self.cursors.ask(claim.queues, claim.types, monotonic=time.monotonic())

    async def _claim_rows(self, claim: Claim, asked: Asked) -> Sequence[Row]:
        types = list(claim.types) if claim.types is not None else None
        rows = await self._database.fetch(
            self._database.sql["claim.lease"],
            self._database.now,
            claim.owner,
            *asked.columns,
            claim.limit,
            types,
            token_stem(claim.nonce),
            asked.says_seen,
        )
        if rows[0]["job"] is None:
            if not rows[0]["is_known"]:
                raise WorkerNotFound(claim.owner)
            self.cursors.took(asked, (), is_short=True)
            self.cursors.saw(asked, rows[0]["seen"])
            return []
        rows = in_claim_order(rows, claim.queues)
        self.cursors.took(asked, rows, is_short=len(rows) < claim.limit)
        if asked.says_seen:
            self.cursors.saw(asked, next(seen for row in rows if (seen := row["seen"]) is not None))
        return rows


def token_stem(nonce: UUID) -> str:
    """What all tokens of a claim have in common: its statement puts the rest behind it."""
    return str(nonce)[:-4]


def _not_claimed(why: str | None, due_at: datetime | None, *, now: datetime) -> NotClaimed:
    """None: it could be claimed when it was looked for."""
    if why is None:
        return BUSY
    if why == WhyNot.EARLY and due_at is not None:
        return NotClaimed(WhyNot.EARLY, (due_at - now).total_seconds())
    return NotClaimed(WhyNot(why))
