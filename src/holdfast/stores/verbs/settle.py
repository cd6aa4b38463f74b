"""How attempts end, item by item: a stale lease is answered, and its neighbours go on."""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import Completed, SettleAnswer, Settled, Settlement
from holdfast.core.decisions import Decision
from holdfast.core.errors import HoldfastError, JobNotFound, StaleLease
from holdfast.core.job import Lease, Progress, Record
from holdfast.core.states import State
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write
from holdfast.stores.verbs.spawn import spawn


async def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
    records = await tx.lock({one.lease.seq for one in settlements})
    by_holder = await _already_settled(tx, settlements, records)
    answers: list[SettleAnswer] = []
    changes: list[tuple[Record, Decision]] = []
    notes: list[tuple[int, Progress | None, bytes | None]] = []
    for one in settlements:
        record = records.get(one.lease.seq)
        if record is None or record.id != one.lease.job_id:
            answers.append(JobNotFound(one.lease.job_id))
        elif record.token == one.lease.token:
            try:
                decision = decisions.settle(record, one.outcome, now=tx.now)
                if isinstance(one.outcome, Completed) and one.outcome.spawn:
                    # Children may wait for any job of this call, so they must find it as it stands by now.
                    await write(tx, changes)
                    changes.clear()
                    await spawn(tx, record, one.outcome.spawn)
                    records.update(await tx.lock(records))
                    record = records[record.seq]
                    decision = decisions.settle(record, one.outcome, now=tx.now)
            except HoldfastError as refusal:
                answers.append(refusal)
                continue
            changes.append((record, decision))
            notes.append((record.seq, one.progress, None))
            # A second settlement of the same lease in this call is a repeat of the first.
            records[record.seq] = decision.record
            by_holder.add((record.seq, one.lease.token))
            answers.append(Settled(decision.record.state))
        elif (record.seq, one.lease.token) in by_holder:
            answers.append(Settled(record.state, is_repeat=True))
        else:
            answers.append(stale(one.lease, record))
    await write(tx, changes)
    notes = [note for note in notes if note[1] is not None]
    if notes:
        await tx.save_notes(notes)
    return answers


async def _already_settled(
    tx: Transaction, settlements: Sequence[Settlement], records: dict[int, Record]
) -> set[tuple[int, UUID]]:
    """Leases that are gone because their holder settled: its first answer was lost, and this is the repeat."""
    gone: set[tuple[int, UUID]] = set()
    completed: set[tuple[int, UUID]] = set()
    for one in settlements:
        record = records.get(one.lease.seq)
        if record is not None and record.token != one.lease.token:
            gone.add((record.seq, one.lease.token))
            if record.state is State.COMPLETED and record.last_token == one.lease.token:
                completed.add((record.seq, one.lease.token))
    return completed | (await tx.ended_by_holder(gone) if gone else set())


def stale(lease: Lease, record: Record | None) -> StaleLease:
    return StaleLease(
        job_id=lease.job_id, held_version=lease.version, current_version=record.version if record else None
    )
