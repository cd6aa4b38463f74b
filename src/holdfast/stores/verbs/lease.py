"""What a holder may do with its lease short of ending it: extend, report, heartbeat; and leave."""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import ExtendAnswer, Extended, Report, ReportAnswer
from holdfast.core.decisions import Decision
from holdfast.core.job import Lease
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write
from holdfast.stores.verbs.settle import stale


async def extend(tx: Transaction, leases: Sequence[Lease]) -> list[ExtendAnswer]:
    records = await tx.lock({lease.seq for lease in leases})
    extended = {
        lease.seq: decisions.extend(records[lease.seq], now=tx.now)
        for lease in leases
        if lease.seq in records and records[lease.seq].token == lease.token
    }
    await write(tx, [(records[seq], Decision(record)) for seq, record in extended.items()])
    answers: list[ExtendAnswer] = []
    for lease in leases:
        record = extended.get(lease.seq)
        if record is None or record.token != lease.token or record.expires_at is None:
            answers.append(stale(lease, records.get(lease.seq)))
        else:
            answers.append(Extended(record.expires_at, record.cancel_requested))
    return answers


async def report(tx: Transaction, reports: Sequence[Report]) -> list[ReportAnswer]:
    records = await tx.lock({one.lease.seq for one in reports})
    answers: list[ReportAnswer] = []
    notes = []
    for one in reports:
        record = records.get(one.lease.seq)
        if record is None or record.token != one.lease.token:
            answers.append(stale(one.lease, record))
        else:
            answers.append(None)
            notes.append((record.seq, one.progress, one.checkpoint))
    if notes:
        await tx.save_notes(notes)
    return answers


async def hand_back_unknown(tx: Transaction, owner: UUID, *, known: Sequence[Lease], claiming: frozenset[UUID]) -> int:
    """Leases in a worker's name that it does not know of: the answer to a claim was lost."""
    unknown = await tx.find_unknown_leases(
        owner, known={(lease.seq, lease.token) for lease in known}, claiming=claiming
    )
    await write(tx, [(record, decisions.hand_back(record, now=tx.now)) for record in unknown])
    return len(unknown)
