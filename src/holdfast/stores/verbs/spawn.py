"""A job that completes leaves children behind: inserted in the transaction that completes it, or not at all.

A FAN_IN on the spawner waits for the children, too. So no child may wait for such a fan-in, or for anything that does:
that would close a circle (DEPEND-1).
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.commands import NewJob, Submit
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import DependencyKind, Edge
from holdfast.core.errors import Fault, HoldfastError, InvalidInput
from holdfast.core.job import Record
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write
from holdfast.stores.verbs.submit import submit


async def spawn(tx: Transaction, parent: Record, jobs: tuple[NewJob, ...]) -> None:
    """Raises before anything is written."""
    fans = [e for e in await tx.edges_from({parent.seq}) if e.is_open and e.kind is DependencyKind.FAN_IN]
    if fans:
        await _refuse_circles(tx, {edge.child for edge in fans}, jobs)
    (answer,) = await submit(tx, [Submit(jobs=jobs)], spawner=parent)
    if isinstance(answer, HoldfastError):
        raise answer
    created = [submitted.job_id for submitted in answer if not submitted.is_duplicate]
    if fans and created:
        await _wait_for_children(tx, fans, list((await tx.lock_ids(created)).values()))


async def _wait_for_children(tx: Transaction, fans: Sequence[Edge], children: Sequence[Record]) -> None:
    await tx.add_edges([Edge(fan.child, child.seq, DependencyKind.FAN_IN) for fan in fans for child in children])
    await write(
        tx, [(child, Decision(replace(child, has_dependents=True))) for child in children if not child.has_dependents]
    )
    # A child may have ended at birth, with what it depends on: the fan-in is told like of any other end.
    ended = [child.seq for child in children if child.state.is_terminal]
    if ended:
        await tx.mark(ended)


async def _refuse_circles(tx: Transaction, fan_ins: set[int], jobs: Sequence[NewJob]) -> None:
    wanted = {dependency.job_id for job in jobs for dependency in job.dependencies}
    if not wanted:
        return
    behind = await _behind(tx, fan_ins)
    circular = {job_id for job_id, record in (await tx.lock_ids(wanted)).items() if record.seq in behind}
    faults = [
        Fault(item=index, field="dependencies", problem="wait for a fan-in on the job that spawns this one")
        for index, job in enumerate(jobs)
        if any(dependency.job_id in circular for dependency in job.dependencies)
    ]
    if faults:
        raise InvalidInput(faults)


async def _behind(tx: Transaction, seqs: set[int]) -> set[int]:
    """These jobs and all that wait for them; the depth of a graph is bounded, and so is this loop."""
    behind = set(seqs)
    frontier = seqs
    while frontier:
        frontier = {edge.child for edge in await tx.edges_from(frontier)} - behind
        behind |= frontier
    return behind
