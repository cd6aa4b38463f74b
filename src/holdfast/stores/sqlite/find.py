"""What time has done to jobs and workers: found, under the write lock."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID

from holdfast.core.job import Record
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import duration_microseconds, from_microseconds

BEATS_A_TIMEOUT: Final = 16
"""How often ticks write that they ran, in a worker timeout: idle processes then cost about one commit a second."""


class Finding(Locking):
    async def find_due(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_due", self.now_microseconds, limit))

    async def find_expired(self, *, limit: int) -> list[Record]:
        if self._is_late:
            return []
        return self._records_in_order(self.rows("tick.find_expired", self.now_microseconds, limit))

    async def find_overaged(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_overaged", self.now_microseconds, limit))

    async def find_unknown_leases(
        self, owner: UUID, *, known: Collection[tuple[int, UUID]], claiming: Collection[UUID]
    ) -> list[Record]:
        known_pairs = {(seq, token.bytes) for seq, token in known}
        in_flight = {token.bytes for token in claiming}
        leases = self.rows("heartbeat.leases", owner.bytes)
        unknown = [row for row in leases if row not in known_pairs and row[1] not in in_flight]
        return self._records_in_order(unknown)

    async def find_leases_of_lost_workers(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_lost", limit))

    async def mark_lost_workers(self, *, timeout_seconds: float) -> None:
        if not self._is_late:
            self.run("tick.mark_lost", self._ago(timeout_seconds), self._ago(-timeout_seconds))

    async def mark_gone_workers(self, workers: Collection[UUID]) -> None:
        self.run_many("tick.mark_gone", [(worker.bytes,) for worker in workers])

    async def beat(self, *, timeout_seconds: float) -> datetime:
        gap = duration_microseconds(timeout_seconds / 2)
        counts_again = self.now_microseconds + duration_microseconds(timeout_seconds)
        recent = duration_microseconds(timeout_seconds / BEATS_A_TIMEOUT)
        rows = self.rows("tick.beat", self.now_microseconds, gap, counts_again, recent) or self.rows("tick.silence")
        return from_microseconds(rows[0][0])
