"""What time has done to jobs and workers: found, and locked where nobody else is at work on it.

Where a search starts is remembered from tick to tick (``sweeps``).
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from holdfast.core.job import Record
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.rows import Row
from holdfast.stores.postgres.sweeps import Search, Sweep


class Finding(Locking):
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

    async def _found(self, rows: Sequence[Row]) -> list[Record]:
        seqs = [row["seq"] for row in rows]
        # Locked by the find already: this is where they stand.
        records, _ = await self.lock_free(seqs)
        return [records[seq] for seq in seqs if seq in records]
