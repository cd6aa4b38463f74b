"""How attempts end, item by item: a stale lease is answered, and its neighbours go on."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.checks import require_valid_progress, require_valid_submit
from holdfast.core.commands import Completed, SettleAnswer, Settled, Settlement, Submit
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import DependencyKind, Edge
from holdfast.core.errors import HoldfastError, JobNotFound, StaleLease
from holdfast.core.job import Lease, Progress, Record
from holdfast.core.states import State
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import propagate, write
from holdfast.stores.verbs.submit import submit


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
                before, decision = await _decide(tx, record, one)
            except HoldfastError as refusal:
                answers.append(refusal)
                continue
            changes.append((before, decision))
            notes.append((record.seq, one.progress, None))
            # A second settlement of the same lease in this call is a repeat of the first.
            records[record.seq] = decision.record
            by_holder.add(one.lease.token)
            answers.append(Settled(decision.record.state))
        elif one.lease.token in by_holder:
            answers.append(Settled(record.state, is_repeat=True))
        else:
            answers.append(stale(one.lease, record))
    await write(tx, changes)
    notes = [note for note in notes if note[1] is not None]
    if notes:
        await tx.save_notes(notes)
    await propagate(tx)
    return answers


async def _decide(tx: Transaction, record: Record, settlement: Settlement) -> tuple[Record, Decision]:
    """Refusals come before any write, so that one leaves nothing behind."""
    outcome = settlement.outcome
    decision = decisions.settle(record, outcome, now=tx.now)
    if settlement.progress is not None:
        require_valid_progress(settlement.progress)
    if isinstance(outcome, Completed) and outcome.spawn:
        await _spawn(tx, record, outcome)
        # A child may wait for its parent, which then has a dependent that it did not have before.
        record = (await tx.lock({record.seq}))[record.seq]
        decision = decisions.settle(record, outcome, now=tx.now)
    return record, decision


async def _spawn(tx: Transaction, parent: Record, outcome: Completed) -> None:
    """Children exist if, and only if, their parent completed: a failed or stale attempt spawns nothing."""
    batch = Submit(jobs=outcome.spawn)
    require_valid_submit(batch)
    (answer,) = await submit(tx, [batch], spawner=parent)
    if isinstance(answer, HoldfastError):
        raise answer
    waiting = [e for e in await tx.edges_from({parent.seq}) if e.is_open and e.kind is DependencyKind.FAN_IN]
    if not waiting:
        return
    # A FAN_IN on a spawner waits for what it spawned, too.
    children = await tx.lock_ids({submitted.job_id for submitted in answer})
    fresh = [
        Edge(edge.child, child.seq, DependencyKind.FAN_IN, is_open=not child.state.is_terminal)
        for edge in waiting
        for child in children.values()
    ]
    await tx.add_edges(fresh)
    await write(tx, [(c, Decision(replace(c, has_dependents=True))) for c in children.values() if not c.has_dependents])


async def _already_settled(tx: Transaction, settlements: Sequence[Settlement], records: dict[int, Record]) -> set[UUID]:
    """Tokens that are gone because their holder settled: its first answer was lost, and this is the repeat."""
    gone: set[UUID] = set()
    completed: set[UUID] = set()
    for one in settlements:
        record = records.get(one.lease.seq)
        if record is not None and record.token != one.lease.token:
            gone.add(one.lease.token)
            if record.state is State.COMPLETED and record.last_token == one.lease.token:
                completed.add(one.lease.token)
    return completed | (await tx.holder_tokens(gone) if gone else set())


def stale(lease: Lease, record: Record | None) -> StaleLease:
    return StaleLease(
        job_id=lease.job_id, held_version=lease.version, current_version=record.version if record else None
    )
