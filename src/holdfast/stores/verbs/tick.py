"""Time moves on. Each part is a transaction of its own, bounded, and skips what another process is at work on."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import Tick, TickReport
from holdfast.core.decisions import Decision
from holdfast.core.job import Record
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write


async def due(tx: Transaction, tick: Tick) -> TickReport:
    records = await tx.find_due(limit=tick.batch)
    await write(tx, [(record, decisions.due(record, now=tx.now)) for record in records])
    return TickReport(due=len(records), has_more=len(records) == tick.batch)


async def expired(tx: Transaction, tick: Tick) -> TickReport:
    records = await tx.find_expired(limit=tick.batch)
    return await _reclaim(tx, tick, [(r, decisions.reclaim(r, decisions.LEASE_EXPIRED, now=tx.now)) for r in records])


async def lost_workers(tx: Transaction, tick: Tick) -> TickReport:
    """Silence that the database itself may have caused proves nothing: after a gap, wait one timeout more."""
    silence_counts_from = await tx.beat(timeout_seconds=tick.worker_timeout_seconds)
    if tx.now >= silence_counts_from:
        await tx.mark_lost_workers(timeout_seconds=tick.worker_timeout_seconds)
    records = await tx.find_leases_of_lost_workers(limit=tick.batch)
    return await _reclaim(tx, tick, [(r, decisions.reclaim(r, decisions.WORKER_LOST, now=tx.now)) for r in records])


async def gone_workers(tx: Transaction, tick: Tick, workers: Collection[UUID]) -> TickReport:
    """No part of tick: whoever watches the workers' processes asks for it."""
    await tx.mark_gone_workers(workers)
    records = await tx.find_leases_of_lost_workers(limit=tick.batch)
    return await _reclaim(tx, tick, [(r, decisions.reclaim(r, decisions.WORKER_LOST, now=tx.now)) for r in records])


async def _reclaim(tx: Transaction, tick: Tick, changes: list[tuple[Record, Decision]]) -> TickReport:
    await write(tx, changes)
    return TickReport(reclaimed=len(changes), has_more=len(changes) == tick.batch)


async def lifetimes(tx: Transaction, tick: Tick) -> TickReport:
    records = await tx.find_overaged(limit=tick.batch)
    await write(tx, [(record, decisions.end_lifetime(record, now=tx.now)) for record in records])
    return TickReport(lifetimes_ended=len(records), has_more=len(records) == tick.batch)


async def marks(tx: Transaction, tick: Tick) -> TickReport:
    """What others left. Told like the marks of every part: after it."""
    tx.marked |= set(await tx.find_marks(limit=tick.batch))
    return TickReport(propagated=len(tx.marked), has_more=len(tx.marked) >= tick.batch)


async def retention(tx: Transaction, tick: Tick) -> TickReport:
    removed = await tx.remove_ended(tick)
    return TickReport(removed=removed, has_more=removed >= tick.batch)


PARTS: Final = (expired, lost_workers, lifetimes, due, marks, retention)


def total(reports: list[TickReport], *, quiet_seconds: float = 0.0) -> TickReport:
    return TickReport(
        due=sum(r.due for r in reports),
        reclaimed=sum(r.reclaimed for r in reports),
        lifetimes_ended=sum(r.lifetimes_ended for r in reports),
        propagated=sum(r.propagated for r in reports),
        removed=sum(r.removed for r in reports),
        has_more=any(r.has_more for r in reports),
        quiet_seconds=quiet_seconds,
    )
