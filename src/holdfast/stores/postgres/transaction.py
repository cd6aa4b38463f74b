"""The verbs' transaction over PostgreSQL: row locks under READ COMMITTED, sets of rows, no session state.

How it works: whatever a verb decides about is locked first, wherever it stands (``lock``). A job that moved between
tables while we waited for its lock is looked for again, without waiting. Who waits, in which order and for how long, is
said in ``locks``; where a lock cannot be had, ``Held`` ends the transaction, and ``Database`` decides what is next.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import CronSlot, NewJob, Tick
from holdfast.core.dependencies import Edge
from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.core.job import Attempt, Progress, Record
from holdfast.core.states import State
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of
from holdfast.stores.postgres.locks import KEYS_BRIEFLY, TRIED_KEYS, Held, Waiting
from holdfast.stores.postgres.rows import Row, edge_from, encode_failure, record_from, slot_from
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.postgres.sweeps import FIRST, RETENTION_LOOKS, Place, Retention, Search, Searches, Sweep, Sweeps
from holdfast.stores.transaction import Change

LOOKS: Final = 3
"""For a job that moves while it is to be locked."""


class Executor(Protocol):
    """A connection in a transaction, of whichever driver."""

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]: ...


class PostgresTransaction:
    def __init__(
        self, executor: Executor, statements: Statements, now: datetime, sweeps: Sweeps, waiting: Waiting
    ) -> None:
        self._executor = executor
        self._sql = statements
        self._sweeps = sweeps
        self._waiting = waiting
        self._has_locks = False
        self._wanted: set[int] = set()
        self._taken_keys: set[tuple[str, str]] = set()
        self.now = now
        self.searches: Searches | None = None
        """Where a tick's searches start; from the beginning without one."""
        self.after_commit: list[Callable[[], None]] = []
        self.awakened: set[str] = set()
        """Queues in which jobs became claimable."""
        self.marked: set[int] = set()

    async def _run(self, name: str, *arguments: Any) -> Sequence[Row]:
        return await self._executor.fetch(self._sql[name], *arguments)

    # jobs

    async def lock(self, seqs: Collection[int]) -> dict[int, Record]:
        """``Held`` where somebody else holds one of them."""
        wanted = set(seqs)
        self._wanted |= wanted
        found: dict[int, Record] = {}
        first = wanted if self._has_locks else wanted | self._waiting.ahead
        if first and (self._waiting.is_callers or (self._waiting.may_wait and not self._has_locks)):
            self._has_locks = True
            found = {row["seq"]: record_from(row) for row in await self._wait_for(first)}
        rest, held = await self.lock_free(wanted - found.keys())
        if held:
            raise Held(held, wanted=self._wanted)
        self._has_locks |= bool(rest)
        found |= rest
        return {seq: found[seq] for seq in sorted(wanted) if seq in found}

    async def _wait_for(self, seqs: Collection[int]) -> Sequence[Row]:
        try:
            return await self._run("lock", sorted(seqs), None if self._waiting.is_callers else self._waiting.patience)
        except Exception as error:
            if sqlstate_of(error) == LOCK_NOT_AVAILABLE and not self._waiting.is_callers:
                raise Held(has_waited=True) from error
            raise

    async def lock_free(self, seqs: Collection[int]) -> tuple[dict[int, Record], set[int]]:
        found: dict[int, Record] = {}
        missing = set(seqs)
        sql = self._sql.skipping_locked("lock")
        for _ in range(LOOKS):
            if not missing:
                break
            # A statement of its own sees where a job that has just moved stands now.
            rows = await self._executor.fetch(sql, sorted(missing), None)
            found.update((row["seq"], record_from(row)) for row in rows)
            missing -= found.keys()
            if missing:
                missing = {row["seq"] for row in await self._run("read.existing", sorted(missing))}
        return found, missing

    async def lock_ids(self, ids: Collection[UUID]) -> dict[UUID, Record]:
        rows = await self._run("read.seqs", list(ids))
        try:
            records = await self.lock([row["seq"] for row in rows])
        except Held as held:
            names = {row["id"] for row in rows if row["seq"] in held.names}
            raise Held(names, wanted=held.wanted, has_waited=held.has_waited) from held
        return {record.id: record for record in records.values()}

    async def existing_ids(self, ids: Collection[UUID]) -> set[UUID]:
        rows = await self._run("read.seqs", list(ids))
        if rows:
            await self._run("connection.replicate")
        return {row["id"] for row in rows}

    async def reserve_seqs(self, count: int) -> list[int]:
        return sorted(row["seq"] for row in await self._run("write.reserve", count))

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        await self._run(
            "write.job",
            [r.seq for r, _ in jobs],
            [r.id for r, _ in jobs],
            [r.type for r, _ in jobs],
            [r.queue for r, _ in jobs],
            [int(r.priority) for r, _ in jobs],
            [r.depth for r, _ in jobs],
            [job.payload.data for _, job in jobs],
            [job.payload.is_json for _, job in jobs],
            [r.created_at for r, _ in jobs],
            [r.run_at for r, _ in jobs],
            [r.max_attempts for r, _ in jobs],
            [r.visibility_seconds for r, _ in jobs],
            [r.lifetime_seconds for r, _ in jobs],
            [r.spawned_by for r, _ in jobs],
            [job.encoded_options for _, job in jobs],
        )
        await self._stand([record for record, _ in jobs])
        await self._count(Counter((record.queue, record.state) for record, _ in jobs))
        tags = [(record.seq, name, value) for record, job in jobs for name, value in job.tags.items()]
        if tags:
            await self._run("write.tag", *map(list, zip(*tags, strict=True)))

    async def write(self, changes: Sequence[Change]) -> None:
        moved = [change for change in changes if change.before.state is not change.after.state]
        for table in sorted({_table(change.before.state) for change in moved}):
            seqs = [change.before.seq for change in moved if _table(change.before.state) == table]
            await self._run(f"write.leave_{table}", seqs)
        await self._stand([change.after for change in moved])
        await self._amend([change.after for change in changes if change.before.state is change.after.state])
        deltas: Counter[tuple[str, State]] = Counter()
        for change in moved:
            deltas[change.before.queue, change.before.state] -= 1
            deltas[change.after.queue, change.after.state] += 1
        await self._count(deltas)

    async def _stand(self, records: Sequence[Record]) -> None:
        """Insert each record into the table of its state."""
        ready = [record for record in records if record.state is State.SCHEDULED]
        waiting = [record for record in records if _table(record.state) == "waiting"]
        ended = [record for record in records if record.state.is_terminal]
        self.awakened.update(record.queue for record in ready)
        if ready:
            await self._run(
                "write.ready",
                [r.seq for r in ready],
                [r.queue for r in ready],
                [int(r.priority) for r in ready],
                *_carried(ready),
                [r.lifetime_ends_at for r in ready],
                [r.type for r in ready],
            )
        if waiting:
            await self._run(
                "write.waiting",
                [r.seq for r in waiting],
                [r.state for r in waiting],
                *_carried(waiting),
                [r.lifetime_ends_at for r in waiting],
                [r.due_at for r in waiting],
                [r.updated_at for r in waiting],
            )
        if ended:
            await self._run(
                "write.ended",
                [r.seq for r in ended],
                [r.state for r in ended],
                *_carried(ended),
                [r.owner for r in ended],
                [r.completed_at for r in ended],
                [r.ended_by for r in ended],
                [encode_failure(r.failure) for r in ended],
                [r.result for r in ended],
            )

    async def _amend(self, records: Sequence[Record]) -> None:
        """Write what may change while a job stays where it is."""
        for table in sorted({_table(record.state) for record in records}):
            here = [record for record in records if _table(record.state) == table]
            columns: list[list[Any]] = [[r.seq for r in here], [r.has_dependents for r in here]]
            if table == "running":
                columns += [[r.cancel_requested for r in here], [r.expires_at for r in here]]
            if table == "ended":
                columns.append([r.ended_by for r in here])
            await self._run(f"write.change_{table}", *columns)

    async def _count(self, deltas: Counter[tuple[str, State]]) -> None:
        rows = [(queue, state, delta) for (queue, state), delta in deltas.items() if delta]
        if rows:
            await self._run("write.tally", *map(list, zip(*rows, strict=True)))

    async def place_anew(self, records: Sequence[Record]) -> None:
        await self._run("write.place_anew", [record.seq for record in records], self.now)
        self.awakened.update(record.queue for record in records)

    async def keep_attempts(self, attempts: Sequence[tuple[int, Attempt]]) -> None:
        await self._run(
            "write.attempt",
            [a.id for _, a in attempts],
            [seq for seq, _ in attempts],
            [a.number for _, a in attempts],
            [a.version for _, a in attempts],
            [a.owner for _, a in attempts],
            [a.started_at for _, a in attempts],
            [a.ended_at for _, a in attempts],
            [a.previous_id for _, a in attempts],
            [a.is_ended_by_holder for _, a in attempts],
            [encode_failure(a.failure) for _, a in attempts],
        )

    async def ended_by_holder(self, leases: Collection[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        rows = await self._run("write.ended_by_holder", list({seq for seq, _ in leases}))
        return {(row["job"], row["token"]) for row in rows} & set(leases)

    async def save_notes(self, notes: Sequence[tuple[int, Progress | None, bytes | None]]) -> None:
        # One row a job in one statement: of several notes on one job the newest value of each kind counts.
        merged: dict[int, tuple[Progress | None, bytes | None]] = {}
        for seq, progress, checkpoint in notes:
            old_progress, old_checkpoint = merged.get(seq, (None, None))
            merged[seq] = (
                progress if progress is not None else old_progress,
                checkpoint if checkpoint is not None else old_checkpoint,
            )
        await self._run(
            "write.note",
            list(merged),
            [p.percent if p else None for p, _ in merged.values()],
            [p.message if p else None for p, _ in merged.values()],
            [c for _, c in merged.values()],
        )

    # keys

    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        # Two submits of one call may ask for the same key; the database is asked once.
        first = {(claim.job_type, claim.key): claim for claim in reversed(claims)}
        rows = await self._ask_for_keys(first)
        if len(rows) < len(first):
            raise Held(first.keys() - {(row["job_type"], row["key"]) for row in rows}, is_key=True)
        holders: dict[tuple[str, str], KeyHolder] = {}
        for row in rows:
            name = (row["job_type"], row["key"])
            if row["is_free"]:
                self._taken_keys.add(name)
            else:
                holders[name] = KeyHolder(job_id=row["job_id"], digest=row["digest"], expires_at=row["expires_at"])
        return [holders.get((claim.job_type, claim.key)) for claim in claims]

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None:
        self._taken_keys -= {(claim.job_type, claim.key) for claim in claims}
        await self._run(
            "idempotency.put",
            [claim.job_type for claim in claims],
            [claim.key for claim in claims],
            [claim.job_id for claim in claims],
            [claim.digest for claim in claims],
            [claim.expires_at for claim in claims],
        )

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        names = [n for n in {(claim.job_type, claim.key) for claim in claims} if n in self._taken_keys]
        if names:
            await self._run("idempotency.drop", [name[0] for name in names], [name[1] for name in names])

    async def _ask_for_keys(self, claims: Mapping[tuple[str, str], KeyClaim]) -> Sequence[Row]:
        arguments = (
            [name[0] for name in claims],
            [name[1] for name in claims],
            [claim.job_id for claim in claims.values()],
            [claim.digest for claim in claims.values()],
            [claim.expires_at for claim in claims.values()],
        )
        is_caller = self._waiting.is_callers
        mode = "none" if len(claims) > TRIED_KEYS else "wait" if is_caller else "try"
        try:
            return await self._run("idempotency.lock", *arguments, mode, None if is_caller else KEYS_BRIEFLY)
        except Exception as error:
            if sqlstate_of(error) == LOCK_NOT_AVAILABLE and not is_caller:
                raise Held(claims if len(claims) == 1 else (), is_key=True) from error
            raise

    # edges

    async def add_edges(self, edges: Sequence[Edge]) -> None:
        await self._run("edges.add", *_edge_columns(edges))

    async def edges_to(self, children: Collection[int]) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.to", list(children))]

    async def edges_from(self, parents: Collection[int]) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.from", list(parents))]

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.open_from", list(parents), limit)]

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        await self._run("edges.set", *_edge_columns(edges))

    async def close_alternatives(self, children: Collection[int]) -> None:
        await self._run("edges.close_alternatives", list(children))

    async def with_open_edges(self, children: Collection[int]) -> set[int]:
        return {row["child"] for row in await self._run("edges.with_open", list(children))}

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        rows = await self._run("edges.spawned", list(parents))
        return list((await self.lock([row["seq"] for row in rows])).values())

    # marks

    async def mark(self, seqs: Collection[int]) -> None:
        await self._run("edges.mark", sorted(seqs))
        self.marked.update(seqs)

    async def unmark(self, seqs: Collection[int]) -> None:
        await self._run("edges.unmark", sorted(seqs))
        self.marked.difference_update(seqs)

    async def find_marks(self, *, limit: int) -> list[int]:
        rows = await self._run("edges.find_marks", *self._sweeps.marks.begin(), limit)
        return self._sweeps.marks.found([(row["place"], row["job"]) for row in rows], limit=limit)

    # slots

    async def lock_slots(self) -> None:
        await self._run("fire.lock")

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        rows = await self._run("fire.find", [name for name, _ in wanted], [slot for _, slot in wanted], self.now)
        return [slot_from(row) for row in rows]

    async def add_slots(self, slots: Sequence[CronSlot]) -> None:
        await self._run(
            "fire.add",
            [slot.name for slot in slots],
            [slot.slot for slot in slots],
            [slot.job_id for slot in slots],
            [slot.fired_at for slot in slots],
        )

    # time

    async def _found(self, rows: Sequence[Row]) -> list[Record]:
        seqs = [row["seq"] for row in rows]
        # Locked by the find already: this is where they stand.
        records, _ = await self.lock_free(seqs)
        return [records[seq] for seq in seqs if seq in records]

    async def find_due(self, *, limit: int) -> list[Record]:
        search, now = self._search("due"), self.now
        rows = await self._run("tick.find_due", now, search.start, limit)
        if len(rows) < limit:
            self.after_commit.append(lambda: self._sweeps.due.finished(search, now))
        return await self._found(rows)

    async def find_expired(self, *, limit: int) -> list[Record]:
        search, now = self._search("expired"), self.now
        rows = await self._run("tick.find_expired", now, search.start, limit)
        if len(rows) < limit:
            self.after_commit.append(lambda: self._sweeps.expired.finished(search, now))
        return await self._found(rows)

    def _search(self, name: str) -> Search:
        if self.searches is not None:
            search: Search = getattr(self.searches, name)
            return search
        sweep: Sweep = getattr(self._sweeps, name)
        return sweep.from_beginning()

    async def find_overaged(self, *, limit: int) -> list[Record]:
        return await self._found(await self._run("tick.find_overaged", self.now, limit))

    async def find_unknown_leases(
        self, owner: UUID, *, known: Collection[tuple[int, UUID]], claiming: Collection[UUID]
    ) -> list[Record]:
        seqs = [seq for seq, _ in known]
        tokens = [token for _, token in known]
        rows = await self._run("heartbeat.unknown", owner, seqs, tokens, list(claiming))
        return await self._found(sorted(rows, key=lambda row: int(row["seq"])))

    async def find_leases_of_lost_workers(self, *, limit: int) -> list[Record]:
        now = self.now
        search = self._sweeps.orphaned.from_beginning()
        rows = await self._run("tick.find_lost", limit)
        if len(rows) < limit:
            self.after_commit.append(lambda: self._sweeps.orphaned.finished(search, now))
        else:
            self.after_commit.append(self._sweeps.orphaned.repeat)
        return await self._found(rows)

    async def mark_lost_workers(self, *, timeout_seconds: float) -> None:
        timeout = timedelta(seconds=timeout_seconds)
        await self._run("tick.mark_lost", self.now - timeout, self.now + timeout)

    async def mark_gone_workers(self, workers: Collection[UUID]) -> None:
        await self._run("tick.mark_gone", list(workers))

    async def beat(self, *, timeout_seconds: float) -> datetime:
        # tick.ask has just noted what there was to note.
        (row,) = await self._run("tick.silence", self.now, timeout_seconds)
        counts_from: datetime = row["counts_from"]
        return counts_from

    async def remove_ended(self, tick: Tick) -> int:
        # First: fire holds the table of slots while it waits for keys.
        await self._remove_slots(limit=tick.batch)
        await self._run("retention.workers", self.now - timedelta(seconds=limits.WORKER_RETENTION_SECONDS))
        # All that may go is found before anything goes, as on every store: what a job waited for goes in a later tick.
        found = await self._removable(await self._remove_keys(limit=tick.batch), tick, limit=tick.batch)
        for kind, seconds in (("done", tick.completed_retention_seconds), ("dead", tick.dead_retention_seconds)):
            found |= await self._old(kind, tick, seconds=seconds, limit=tick.batch - len(found))
        if not found:
            return 0
        (row,) = await self._run("retention.remove", sorted(found))
        removed: int = row["removed"]
        return removed

    async def _remove_keys(self, *, limit: int) -> list[int]:
        """Keys whose window is over. Returns the jobs that they stood for: those may have been kept for them alone."""
        ids = [row["job_id"] for row in await self._run("retention.keys", self.now, limit)]
        if not ids:
            return []
        rows = await self._run("read.seqs", ids)
        return sorted(row["seq"] for row in rows)

    async def _old(self, kind: str, tick: Tick, *, seconds: float, limit: int) -> set[int]:
        """Jobs of one kind of end that may go, oldest first, from where the last tick stopped looking."""
        retention: Retention = getattr(self._sweeps, kind)
        place: Place = getattr(self.searches, f"{kind}_from") if self.searches is not None else FIRST
        now, until, looks = self.now, self.now - timedelta(seconds=seconds), tick.batch * RETENTION_LOOKS
        if limit <= 0 or place[0] > until:
            return set()
        rows = await self._run(f"retention.find_{kind}", *place, until, looks)
        found = await self._removable([row["job"] for row in rows], tick, limit=limit)
        if len(found) >= limit:
            # There may be more that may go among those looked at: the next tick, which comes at once, looks again.
            return found
        if len(rows) < looks:
            self.after_commit.append(lambda: retention.reached(until, now))
        else:
            last = rows[-1]["completed_at"]
            kept = sum(row["completed_at"] == last and row["job"] not in found for row in rows)
            reached = (last, kept + (place[1] if place[0] == last else 0))
            self.after_commit.append(lambda: retention.looked(reached, is_worth_it=2 * len(found) >= tick.batch))
        return found

    async def _removable(self, seqs: Sequence[int], tick: Tick, *, limit: int) -> set[int]:
        """Which of them may go, locked."""
        if not seqs:
            return set()
        rows = await self._run(
            "retention.removable",
            list(seqs),
            self.now - timedelta(seconds=tick.completed_retention_seconds),
            self.now - timedelta(seconds=tick.dead_retention_seconds),
            self.now,
            limit,
        )
        return {row["seq"] for row in rows}

    async def _remove_slots(self, *, limit: int) -> None:
        await self._run("retention.slots", self.now - timedelta(seconds=limits.CRON_RETENTION_SECONDS), self.now, limit)


def _table(state: State) -> str:
    if state is State.SCHEDULED:
        return "ready"
    if state is State.RUNNING:
        return "running"
    return "ended" if state.is_terminal else "waiting"


def _carried(records: Sequence[Record]) -> list[list[Any]]:
    return [
        [r.version for r in records],
        [r.attempt for r in records],
        [r.replays for r in records],
        [r.is_fragile for r in records],
        [r.has_dependents for r in records],
        [r.scheduled_at for r in records],
        [r.started_at for r in records],
        [r.last_token for r in records],
    ]


def _edge_columns(edges: Sequence[Edge]) -> list[list[Any]]:
    return [
        [edge.child for edge in edges],
        [edge.parent for edge in edges],
        [edge.kind for edge in edges],
        [edge.is_open for edge in edges],
    ]
