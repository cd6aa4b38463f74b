"""Put right what an examination found, over the same transaction as every verb: lock, look again, write.

Nobody is waited for: what somebody holds is left as it is, and found by the next examination.
"""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from typing import Any, Final

from holdfast.core import decisions
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import Edge, judge
from holdfast.core.examination import Code
from holdfast.core.job import Record
from holdfast.core.states import State
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import EDGES_A_STEP, write

RELEASED: Final = frozenset({State.SCHEDULED, State.DELAYED, State.RUNNING, State.RETRYING, State.COMPLETED})
"""Jobs that are, or were, allowed to run."""


async def judge_again(tx: Transaction, children: Collection[int]) -> None:
    """PENDING jobs without an open edge: they wait for what has not ended, or are released, or end."""
    edges = await tx.edges_to(children)
    records, _ = await tx.lock_free({*children, *(edge.parent for edge in edges)})
    pending = {seq for seq in children if seq in records and records[seq].state is State.PENDING}
    stuck = pending - await tx.with_open_edges(pending) if pending else set[int]()
    edges = await tx.edges_to(stuck) if stuck else []
    for seq in sorted(stuck):
        own = [edge for edge in edges if edge.child == seq]
        if all(edge.parent in records for edge in own):
            await _judge(tx, records[seq], own, records)


async def _judge(tx: Transaction, child: Record, edges: Collection[Edge], records: dict[int, Record]) -> None:
    verdict = judge([(edge.kind, records[edge.parent]) for edge in edges])
    if verdict.ended_by is not None:
        ended = decisions.end_by_dependency(child, verdict.ended_by, now=tx.now)
        await write(tx, [(child, Decision(ended))])
    elif verdict.open_parents:
        await tx.set_edges([replace(edge, is_open=edge.parent in verdict.open_parents) for edge in edges])
        await _flag(tx, [records[seq] for seq in verdict.open_parents])
    else:
        await write(tx, [(child, Decision(decisions.release(child, now=tx.now)))])


async def leave_marks(tx: Transaction, parents: Collection[int]) -> None:
    """Of jobs that have ended with dependents that were not told. Whoever runs this tells them after it."""
    records, _ = await tx.lock_free(parents)
    ended = [record for record in records.values() if record.state.is_terminal]
    edges = await tx.open_edges_from([record.seq for record in ended], limit=EDGES_A_STEP) if ended else []
    untold = {edge.parent for edge in edges}
    await _flag(tx, [record for record in ended if record.seq in untold])
    if untold:
        await tx.mark(untold)


async def note_dependents(tx: Transaction, parents: Collection[int]) -> None:
    """Of jobs that have not ended, and do not know that others wait for them."""
    records, _ = await tx.lock_free(parents)
    waited_for = {edge.parent for edge in await tx.edges_from(records) if edge.is_open} if records else set[int]()
    await _flag(tx, [record for record in records.values() if record.seq in waited_for])


async def _flag(tx: Transaction, records: Collection[Record]) -> None:
    await write(tx, [(record, Decision(replace(record, has_dependents=True))) for record in records])


async def close_edges(tx: Transaction, children: Collection[int]) -> None:
    """Of jobs that were released, and not by a person who replayed them by themselves."""
    records, _ = await tx.lock_free(children)
    released = {r.seq for r in records.values() if r.state in RELEASED and not r.replays}
    edges = [edge for edge in await tx.edges_to(released) if edge.is_open] if released else []
    if edges:
        await tx.set_edges([replace(edge, is_open=False) for edge in edges])


async def drop_marks(tx: Transaction, seqs: Collection[int]) -> None:
    """Of jobs that are gone."""
    records, held = await tx.lock_free(seqs)
    gone = set(seqs) - records.keys() - held
    if gone:
        await tx.unmark(gone)


async def place_again(tx: Transaction, seqs: Collection[int]) -> None:
    """SCHEDULED jobs that claims pass by stand behind the others from now on, where claims find them."""
    records, _ = await tx.lock_free(seqs)
    passed = [record for record in records.values() if record.state is State.SCHEDULED]
    if passed:
        await tx.place_again(sorted(passed, key=lambda record: record.seq))


Repair = Callable[[Transaction, Collection[int]], Coroutine[Any, Any, None]]
BY_JOBS: Final[dict[Code, Repair]] = {
    Code.PENDING_WITHOUT_EDGE: judge_again,
    Code.END_UNTOLD: leave_marks,
    Code.DEPENDENTS_FORGOTTEN: note_dependents,
    Code.OPEN_EDGE_LEFT: close_edges,
    Code.MARK_WITHOUT_JOB: drop_marks,
    Code.OVERDUE_SCHEDULED: place_again,
}
"""What is put right job by job; the rest is a statement of each store's."""
REPAIR_BATCH: Final = 100
