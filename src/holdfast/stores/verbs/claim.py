"""claim_ids, for stores where nobody else writes meanwhile."""

from collections.abc import Container
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import ClaimIds, NotClaimed, lease_tokens
from holdfast.core.decisions import Decision
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write


async def claim_ids(tx: Transaction, claim: ClaimIds, *, paused: Container[str]) -> dict[UUID, NotClaimed]:
    """Why some of the jobs were left; the others are leased. That the worker is known, the caller has found out."""
    chosen, left = decisions.choose(await tx.lock_ids(claim.ids), claim, paused=paused, now=tx.now)
    tokens = lease_tokens(claim.nonce, len(chosen))
    await write(
        tx,
        [
            (record, Decision(decisions.claim_due(record, owner=claim.owner, token=token, now=tx.now)))
            for token, record in zip(tokens, sorted(chosen, key=lambda record: record.seq), strict=True)
        ],
    )
    return left
