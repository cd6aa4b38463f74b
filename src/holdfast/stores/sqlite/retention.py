"""What is past its retention, removed: ended jobs with all that belongs to them, keys, workers and slots."""

from collections.abc import Sequence
from typing import Final

from holdfast.core import limits
from holdfast.core.commands import Tick
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import Row, json_array

RETENTION_LOOKS: Final = 10
"""Batches of ended jobs that one tick looks at, where something keeps them from being removed."""


class Removing(Locking):
    async def remove_ended(self, tick: Tick) -> int:
        self.run("retention.keys", self.now_microseconds, tick.batch)
        self.run("retention.workers", self._ago(limits.WORKER_RETENTION_SECONDS))
        self.run("retention.slots", self._ago(limits.CRON_RETENTION_SECONDS), self.now_microseconds, tick.batch)
        removed = self._remove("retention.find_done", tick.completed_retention_seconds, tick.batch)
        return removed + self._remove("retention.find_dead", tick.dead_retention_seconds, tick.batch - removed)

    def _remove(self, find: str, retention_seconds: float, batch: int) -> int:
        looks = batch * RETENTION_LOOKS
        candidates = self.rows(find, *self.sweeps.pop(find, (0, 0)), self._ago(retention_seconds), looks)
        if not candidates:
            return 0
        seqs = json_array([seq for _, seq in candidates])
        removable = self.rows("retention.removable", seqs, self.now_microseconds, batch)
        if len(removable) < batch and len(candidates) == looks:
            # What must stay may stand before what may go: the next tick looks further on.
            self.sweeps[find] = candidates[-1]
        if removable:
            self._remove_all(removable)
        return len(removable)

    def _remove_all(self, removable: Sequence[Row]) -> None:
        seqs = json_array([row[0] for row in removable])
        for table in ("ended", "jobs", "edges_to", "edges_from", "notes", "tags", "attempts"):
            self.run(f"retention.{table}", seqs)
        for _, queue, state in removable:
            self.tally[queue, state] -= 1
