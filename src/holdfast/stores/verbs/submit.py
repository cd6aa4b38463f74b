"""Accept jobs: keys, dependencies and spawned children. Plain jobs take a store's own fast statement instead.

All submits of a call are planned over one set of locked facts and written together; a refused one leaves nothing, and
does not disturb the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from holdfast.core import decisions, idempotency
from holdfast.core.checks import run_at_fault
from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.decisions import Decision
from holdfast.core.dependencies import Dependency, DependencyKind, Edge, depth_fault, judge, order
from holdfast.core.errors import Fault, HoldfastError, InvalidInput
from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.core.job import Record
from holdfast.core.priority import effective
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.change import write


@dataclass(slots=True)
class Facts:
    """What the transaction knows, locked; grows as submits of the same call are accepted."""

    existing: set[UUID]
    holders: dict[tuple[str, str], KeyHolder]
    records: dict[UUID, Record] = field(default_factory=dict)
    spawned: dict[int, list[Record]] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    answers: list[Submitted]
    jobs: list[tuple[Record, NewJob]] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    keys: list[KeyClaim] = field(default_factory=list)


async def submit(tx: Transaction, submits: Sequence[Submit], *, spawner: Record | None = None) -> list[SubmitAnswer]:
    jobs = [job for one in submits for job in one.jobs]
    claims = {job.id: _key_claim(tx, job) for job in jobs if job.key is not None}
    facts = await _gather(tx, jobs, claims)
    seqs = iter(await tx.reserve_seqs(len(jobs)))
    answers: list[SubmitAnswer] = []
    plans: list[Plan] = []
    for one in submits:
        try:
            plan = _plan(tx, one, facts, claims, [next(seqs) for _ in one.jobs], spawner)
        except HoldfastError as refusal:
            answers.append(refusal)
        else:
            _accept(facts, plan)
            plans.append(plan)
            answers.append(tuple(plan.answers))
    await _write(tx, plans, facts, claims)
    return answers


def _key_claim(tx: Transaction, job: NewJob) -> KeyClaim:
    assert job.key is not None
    return KeyClaim(
        job_type=job.type,
        key=job.key,
        job_id=job.id,
        digest=job.payload.digest(),
        expires_at=tx.now + timedelta(seconds=job.key_window_seconds),
    )


async def _gather(tx: Transaction, jobs: Sequence[NewJob], claims: dict[UUID, KeyClaim]) -> Facts:
    existing = await tx.existing_ids([job.id for job in jobs])
    wanted = [claim for job_id, claim in claims.items() if job_id not in existing]
    holders: dict[tuple[str, str], KeyHolder] = {}
    if wanted:
        for claim, holder in zip(wanted, await tx.lock_keys(wanted), strict=True):
            if holder is not None:
                holders[claim.job_type, claim.key] = holder
    facts = Facts(existing, holders)
    parents = {d.job_id for job in jobs for d in job.dependencies}
    if parents:
        # A job of the batch that turns out to be a duplicate stands for the job that has its key.
        parents |= {holder.job_id for holder in holders.values()}
        facts.records = await tx.lock_ids(parents)
        fans = {d.job_id for job in jobs for d in job.dependencies if d.kind is DependencyKind.FAN_IN}
        fans |= {h.job_id for c in wanted if c.job_id in fans and (h := holders.get((c.job_type, c.key))) is not None}
        spawners = [facts.records[job_id].seq for job_id in fans if job_id in facts.records]
        if spawners:
            for child in await tx.spawned(spawners):
                assert child.spawned_by is not None
                facts.spawned.setdefault(child.spawned_by, []).append(child)
                facts.records[child.id] = child
    return facts


def _plan(
    tx: Transaction,
    submit: Submit,
    facts: Facts,
    claims: dict[UUID, KeyClaim],
    seqs: Sequence[int],
    spawner: Record | None,
) -> Plan:
    aliases = _find_duplicates(tx, submit, facts, claims)
    plan = Plan([Submitted(aliases.get(job.id, job.id), job.id in aliases) for job in submit.jobs])
    new = {job.id: job for job in submit.jobs if job.id not in aliases and job.id not in facts.existing}
    if not new:
        return plan
    index_of = {job.id: index for index, job in enumerate(submit.jobs)}
    seq_of = {job.id: seq for job, seq in zip(submit.jobs, seqs, strict=True)}
    known = dict(facts.records)
    faults: list[Fault] = []
    # Planned dependencies first, but placed and numbered as given.
    ordered, _ = order({job_id: job.dependencies for job_id, job in new.items()})
    for job_id in ordered:
        job = new[job_id]
        waits_for = [replace_alias(d, aliases) for d in job.dependencies]
        missing = [d.job_id for d in waits_for if d.job_id not in known]
        if missing:
            names = ", ".join(str(one) for one in missing)
            faults.append(Fault(item=index_of[job_id], field="dependencies", problem=f"name no known job: {names}"))
        # Planned all the same: those of the batch that wait for it are not at fault for that.
        parents = _parents([d for d in waits_for if d.job_id in known], known, facts)
        depth = max((parent.depth + 1 for _, parent in parents), default=0)
        if spawner is not None:
            depth = max(depth, spawner.depth + 1)
        priority = effective(job.priority, (parent.priority for _, parent in parents))
        record = decisions.accept(job, seq=seq_of[job_id], now=tx.now, priority=priority, depth=depth)
        if spawner is not None:
            record = replace(record, spawned_by=spawner.seq)
        if not missing and (fault := depth_fault(index_of[job_id], depth)):
            faults.append(fault)
        if (
            not missing
            and record.run_at is not None
            and (
                fault := run_at_fault(index_of[job_id], run_at=record.run_at, lifetime_ends_at=record.lifetime_ends_at)
            )
        ):
            faults.append(fault)
        known[job_id] = record = _first_state(tx, record, parents, plan)
    if faults:
        raise InvalidInput(faults)
    plan.jobs = [(known[job_id], job) for job_id, job in new.items()]
    plan.keys = [claims[job_id] for job_id in new if job_id in claims]
    return plan


def replace_alias(dependency: Dependency, aliases: dict[UUID, UUID]) -> Dependency:
    return replace(dependency, job_id=aliases.get(dependency.job_id, dependency.job_id))


def _find_duplicates(tx: Transaction, submit: Submit, facts: Facts, claims: dict[UUID, KeyClaim]) -> dict[UUID, UUID]:
    keyed = [claims[job.id] for job in submit.jobs if job.id in claims and job.id not in facts.existing]
    found = [
        idempotency.existing_job(claim, facts.holders.get((claim.job_type, claim.key)), now=tx.now) for claim in keyed
    ]
    if submit.is_keyed_as_one:
        idempotency.require_all_or_none(keyed, found)
    return {claim.job_id: job_id for claim, job_id in zip(keyed, found, strict=True) if job_id is not None}


def _parents(
    waits_for: Sequence[Dependency], known: dict[UUID, Record], facts: Facts
) -> list[tuple[DependencyKind, Record]]:
    """What a job waits for; a FAN_IN on a job that has spawned waits for those children too."""
    parents: dict[int, tuple[DependencyKind, Record]] = {}
    for dependency in waits_for:
        parent = known[dependency.job_id]
        if dependency.kind is DependencyKind.AFTER_ANY:
            # Two dependencies can be one job, by its key: then the kind that asks for more counts.
            parents.setdefault(parent.seq, (dependency.kind, parent))
        else:
            parents[parent.seq] = (dependency.kind, parent)
        if dependency.kind is DependencyKind.FAN_IN:
            for child in facts.spawned.get(parent.seq, ()):
                parents.setdefault(child.seq, (DependencyKind.FAN_IN, child))
    return list(parents.values())


def _first_state(
    tx: Transaction, record: Record, parents: Sequence[tuple[DependencyKind, Record]], plan: Plan
) -> Record:
    verdict = judge(parents)
    plan.edges += [
        Edge(record.seq, parent.seq, kind, is_open=parent.seq in verdict.open_parents) for kind, parent in parents
    ]
    if verdict.ended_by is not None:
        return decisions.end_by_dependency(record, verdict.ended_by, now=tx.now)
    return record if verdict.open_parents else decisions.release(record, now=tx.now)


def _accept(facts: Facts, plan: Plan) -> None:
    """Later submits of the same call see what this one will write."""
    for record, _ in plan.jobs:
        facts.existing.add(record.id)
        facts.records[record.id] = record
    for claim in plan.keys:
        facts.holders[claim.job_type, claim.key] = KeyHolder(
            job_id=claim.job_id, digest=claim.digest, expires_at=claim.expires_at
        )


async def _write(tx: Transaction, plans: Sequence[Plan], facts: Facts, claims: dict[UUID, KeyClaim]) -> None:
    edges = [edge for plan in plans for edge in plan.edges]
    parents = {edge.parent for edge in edges}
    jobs = [(replace(record, has_dependents=record.seq in parents), job) for plan in plans for record, job in plan.jobs]
    kept = [claim for plan in plans for claim in plan.keys]
    if jobs:
        await tx.insert(jobs)
    if edges:
        await tx.add_edges(edges)
        await _flag_parents(tx, edges, {record.seq for record, _ in jobs}, facts)
    if kept:
        await tx.put_keys(kept)
    kept_ids = {claim.job_id for claim in kept}
    dropped = [claim for job_id, claim in claims.items() if job_id not in kept_ids]
    if dropped:
        await tx.drop_keys(dropped)


async def _flag_parents(tx: Transaction, edges: Sequence[Edge], new: set[int], facts: Facts) -> None:
    """A job that gets its first dependent must remember to tell it, and is locked until that is written."""
    by_seq = {record.seq: record for record in facts.records.values()}
    parents = {edge.parent for edge in edges} - new
    flagged = [by_seq[seq] for seq in parents if not by_seq[seq].has_dependents]
    await write(tx, [(record, Decision(replace(record, has_dependents=True))) for record in flagged])
