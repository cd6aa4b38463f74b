"""Cancel: what waits ends now, what runs is asked to stop. Repeats are harmless."""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import CancelAnswer, CancelOutcome
from holdfast.core.decisions import Decision
from holdfast.core.job import Record
from holdfast.core.states import State
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write


async def cancel(tx: Transaction, ids: Sequence[UUID]) -> list[CancelAnswer]:
    records = await tx.lock_ids(set(ids))
    after = {job_id: decisions.cancel(record, now=tx.now) for job_id, record in records.items()}
    await write(tx, [(records[job_id], Decision(record)) for job_id, record in after.items()])
    return [_answer(records.get(job_id), after.get(job_id)) for job_id in ids]


def _answer(before: Record | None, after: Record | None) -> CancelAnswer:
    if before is None or after is None:
        return CancelAnswer(CancelOutcome.NOT_FOUND)
    if before.state.is_terminal:
        return CancelAnswer(CancelOutcome.ALREADY_ENDED, before.state)
    outcome = CancelOutcome.REQUESTED if after.state is State.RUNNING else CancelOutcome.CANCELLED
    return CancelAnswer(outcome, after.state)
