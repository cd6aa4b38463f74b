"""What the verbs write: jobs that come, move from table to table, and change where they stand."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from holdfast.core.commands import NewJob
from holdfast.core.job import Attempt, Progress, Record
from holdfast.core.states import State
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.rows import encode_failure, verbs_insert
from holdfast.stores.transaction import Change


class Writing(Locking):
    async def reserve_seqs(self, count: int) -> list[int]:
        return sorted(row["seq"] for row in await self._run("write.reserve", count))

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        await self._run("write.job", *verbs_insert(jobs))
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

    async def place_again(self, records: Sequence[Record]) -> None:
        await self._run("write.place_again", [record.seq for record in records], self.now)
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
