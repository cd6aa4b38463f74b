"""Write decisions, and tell the dependents of jobs that ended.

A job that ends with dependents leaves a durable mark in the transaction that ends it. Telling the dependents consumes
marks, here at once up to a bound and in tick for the rest, so that a long cascade never makes one long transaction and
a crash between the two loses nothing.
"""

from collections.abc import Iterable, Sequence
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


async def propagate(tx: Transaction, *, limit: int = MARKS_A_CALL) -> int:
    """Tell dependents, at most ``limit`` ended jobs' worth. Returns how many were dealt with."""
    told = 0
    while told < limit:
        parents = await tx.take_marks(limit=min(MARKS_A_STEP, limit - told))
        if not parents:
            break
        await _tell_dependents(tx, parents)
        told += len(parents)
    return told


async def _tell_dependents(tx: Transaction, marked: Sequence[int]) -> None:
    parents = {seq: r for seq, r in (await tx.lock(marked)).items() if r.state.is_terminal}
    edges = await tx.open_edges_from(parents, limit=EDGES_A_STEP)
    if len(edges) == EDGES_A_STEP:
        await tx.mark(parents)
    if not edges:
        return
    children = await tx.lock({edge.child for edge in edges})
    pending = {seq for seq, child in children.items() if child.state is State.PENDING}
    fatal: dict[int, Edge] = {}
    for edge in edges:
        if edge.child in pending and ends_dependent(edge.kind, parents[edge.parent].state):
            fatal.setdefault(edge.child, edge)
    await tx.set_edges([Edge(e.child, e.parent, e.kind, is_open=False) for e in edges])
    met = {e.child for e in edges if e.kind is DependencyKind.AFTER_ANY}
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
