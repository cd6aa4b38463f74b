"""Write decisions, and tell the dependents of jobs that ended.

A job that ends with dependents leaves a durable mark in the transaction that ends it. Telling the dependents removes
marks, at once up to a bound and in tick for the rest. A store in which others write at the same time tells in
transactions of their own, one step each, after the commit of the verb: a step locks all that it needs in one go, so
locks never pile up over a cascade. A crash between the two loses nothing, because the marks are still there.

MARK-1. A mark is left and removed only under the lock of its job. So whoever holds that lock knows whether there is
    one.
MARK-2. A mark goes only when all of the job's open edges are closed. One whose dependents cannot all be locked stays.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from holdfast.core import decisions
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import DependencyKind, Edge, ends_dependent
from holdfast.core.job import Record
from holdfast.core.states import State
from holdfast.stores.transaction import Change, Transaction

MARKS_A_STEP: Final = 100
EDGES_A_STEP: Final = 1000
MARKS_A_CALL: Final = 1000


async def write(tx: Transaction, changes: Iterable[tuple[Record, Decision]]) -> None:
    """Write decisions with their attempts, and mark what ended with dependents."""
    pairs = [(before, decision) for before, decision in changes if decision.record != before]
    if not pairs:
        return
    await tx.write([Change(before, decision.record) for before, decision in pairs])
    attempts = [(before.seq, decision.attempt) for before, decision in pairs if decision.attempt is not None]
    if attempts:
        await tx.keep_attempts(attempts)
    ended = [
        decision.record.seq
        for before, decision in pairs
        if decision.record.has_dependents and decision.record.state.is_terminal and not before.state.is_terminal
    ]
    if ended:
        await tx.mark(ended)


async def propagate(tx: Transaction, *, limit: int = MARKS_A_CALL) -> None:
    """Tell the dependents of what was marked, in this transaction: for stores where nobody else writes meanwhile."""
    told = 0
    while tx.marked and told < limit:
        step = next_step(tx.marked, told=told, limit=limit)
        await tell(tx, step, may_wait=True)
        told += len(step)


def next_step(marked: Collection[int], *, told: int, limit: int) -> list[int]:
    return sorted(marked)[: min(MARKS_A_STEP, limit - told)]


async def tell(tx: Transaction, marked: Sequence[int], *, may_wait: bool) -> tuple[int, set[int]]:
    """One step. ``tx.marked`` is then what may be told next.

    Returns how many are done with, and which keep their mark because somebody else holds them or a dependent; with
    ``may_wait`` that is always the empty set.
    """
    edges = await tx.open_edges_from(marked, limit=EDGES_A_STEP)
    wanted = {*marked, *(edge.child for edge in edges)}
    records, locked = (await tx.lock(wanted), set[int]()) if may_wait else await tx.lock_free(wanted)
    # Asked again under the locks. What has come in between waits for the next step.
    parents = {seq: records[seq] for seq in marked if seq in records and records[seq].state.is_terminal}
    edges = await tx.open_edges_from(parents, limit=EDGES_A_STEP) if parents else []
    rest = {edge.parent for edge in edges if edge.child not in records}
    if len(edges) == EDGES_A_STEP:
        rest |= {seq for seq in parents if seq >= edges[-1].parent}
    await _close(tx, [edge for edge in edges if edge.child in records], records)
    held = locked.intersection(marked) | {edge.parent for edge in edges if edge.child in locked}
    done = [seq for seq in marked if seq not in rest and seq not in held]
    if done:
        await tx.unmark(done)
    tx.marked |= rest - held
    return len(done), held


async def _close(tx: Transaction, edges: Sequence[Edge], records: Mapping[int, Record]) -> None:
    """Of parents that have ended, with the parents and the children locked: release the children, or end them."""
    if not edges:
        return
    parents, children = records, {edge.child: records[edge.child] for edge in edges}
    pending = {seq for seq, child in children.items() if child.state is State.PENDING}
    fatal: dict[int, Edge] = {}
    for edge in edges:
        if edge.child in pending and ends_dependent(edge.kind, parents[edge.parent].state):
            fatal.setdefault(edge.child, edge)
    await tx.set_edges([Edge(e.child, e.parent, e.kind, is_open=False) for e in edges])
    met = {e.child for e in edges if e.kind is DependencyKind.AFTER_ANY} & pending
    if met:
        await tx.close_alternatives(met)
    candidates = pending - fatal.keys()
    released = sorted(candidates - await tx.with_open_edges(candidates)) if candidates else []
    changes = [
        (children[seq], Decision(decisions.end_by_dependency(children[seq], parents[edge.parent], now=tx.now)))
        for seq, edge in fatal.items()
    ]
    changes += [(children[seq], Decision(decisions.release(children[seq], now=tx.now))) for seq in released]
    await write(tx, changes)
