"""Replay: a dead job starts again, and the dependents that ended with it come back to wait for it.

A dependent comes back only if nothing else that it needs is dead; otherwise it stays ended, now because of that.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from holdfast.core import decisions
from holdfast.core.commands import ReplayAnswer, ReplayOutcome
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import Edge, judge
from holdfast.core.job import Record
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write


async def replay(tx: Transaction, ids: Sequence[UUID]) -> list[ReplayAnswer]:
    records = await tx.lock_ids(set(ids))
    enders = await tx.lock({r.ended_by for r in records.values() if r.ended_by is not None})
    answers: list[ReplayAnswer] = []
    back: dict[int, Record] = {}
    changes: list[tuple[Record, Decision]] = []
    for job_id in ids:
        record = records.get(job_id)
        if record is None:
            answers.append(ReplayAnswer(job_id, ReplayOutcome.NOT_FOUND))
        elif record.seq in back or not record.state.is_replayable:
            state = back[record.seq].state if record.seq in back else record.state
            answers.append(ReplayAnswer(job_id, ReplayOutcome.UNCHANGED, state))
        elif record.ended_by is not None and record.ended_by in enders:
            ender = enders[record.ended_by]
            answers.append(ReplayAnswer(job_id, ReplayOutcome.ENDED_BY_DEPENDENCY, record.state, ender.id))
        else:
            back[record.seq] = decisions.replay(record, now=tx.now)
            changes.append((record, Decision(back[record.seq])))
            answers.append(ReplayAnswer(job_id, ReplayOutcome.REPLAYED, back[record.seq].state))
    await write(tx, changes)
    await _revive_dependents(tx, back)
    return await _with_their_dependencies(tx, answers) if back else answers


async def _with_their_dependencies(tx: Transaction, answers: list[ReplayAnswer]) -> list[ReplayAnswer]:
    """What ended with a dependency, and was named beside it, may be back by now; or dead because of another one."""
    ended = {answer.job_id for answer in answers if answer.outcome is ReplayOutcome.ENDED_BY_DEPENDENCY}
    records = await tx.lock_ids(ended) if ended else {}
    enders = await tx.lock({r.ended_by for r in records.values() if r.ended_by is not None}) if records else {}
    seen: set[UUID] = set()
    for n, answer in enumerate(answers):
        record = records.get(answer.job_id)
        if record is None:
            continue
        if record.ended_by is not None:
            answers[n] = replace(answer, dependency_id=enders[record.ended_by].id)
        else:
            outcome = ReplayOutcome.UNCHANGED if record.id in seen else ReplayOutcome.REPLAYED
            answers[n] = ReplayAnswer(record.id, outcome, record.state)
        seen.add(record.id)
    return answers


async def _revive_dependents(tx: Transaction, back: dict[int, Record]) -> None:
    """Transitively, level by level; the depth of a graph is bounded, and so is this loop."""
    frontier = {seq: record for seq, record in back.items() if record.has_dependents}
    while frontier:
        edges = await tx.edges_from(frontier)
        children = await tx.lock({edge.child for edge in edges})
        ended = {s: c for s, c in children.items() if c.state.is_replayable and c.ended_by in frontier}
        frontier = await _revive(tx, ended) if ended else {}


async def _revive(tx: Transaction, ended: dict[int, Record]) -> dict[int, Record]:
    edges = await tx.edges_to(ended)
    parents = await tx.lock({edge.parent for edge in edges})
    changes: list[tuple[Record, Decision]] = []
    updated: list[Edge] = []
    revived: dict[int, Record] = {}
    for seq, record in ended.items():
        own = [edge for edge in edges if edge.child == seq and edge.parent in parents]
        verdict = judge([(edge.kind, parents[edge.parent]) for edge in own])
        updated += [replace(edge, is_open=edge.parent in verdict.open_parents) for edge in own]
        if verdict.ended_by is not None:
            changes.append((record, Decision(replace(record, ended_by=verdict.ended_by.seq))))
        else:
            pending = decisions.revive(record, now=tx.now)
            changes.append((record, Decision(pending)))
            revived[seq] = pending
    await tx.set_edges(updated)
    await write(tx, changes)
    return {seq: record for seq, record in revived.items() if record.has_dependents}
