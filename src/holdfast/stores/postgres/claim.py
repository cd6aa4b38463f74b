"""claim: a batch of leases in one statement, which starts where the cursors say (``cursors``).

What the statement guarantees stands at its head (``sql/claim.sql``). A repeat first returns the leases that the claim's
tokens already have.
"""

import time
from collections.abc import Sequence

from holdfast.core.commands import Claim, lease_tokens
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
        if claim.is_repeat:
            tokens = lease_tokens(claim.nonce, claim.limit)
            rows = await self._database.fetch(self._database.sql["claim.again"], claim.owner, tokens)
            if rows:
                return all_claimed_from(rows, claim.owner)
        asked = self._ask(claim)
        rows = await self._claim_rows(claim, asked)
        if not rows and asked.is_ahead:
            rows = await self._claim_rows(claim, self._ask(claim))
        self.floors.start()
        return all_claimed_from(rows, claim.owner)

    def _ask(self, claim: Claim) -> Asked:
        return self.cursors.ask(claim.queues, claim.types, monotonic=time.monotonic())

    async def _claim_rows(self, claim: Claim, asked: Asked) -> Sequence[Row]:
        types = list(claim.types) if claim.types is not None else None
        token_stem = str(claim.nonce)[:-4]
        rows = await self._database.fetch(
            self._database.sql["claim.lease"],
            self._database.now,
            claim.owner,
            *asked.columns,
            claim.limit,
            types,
            token_stem,
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
