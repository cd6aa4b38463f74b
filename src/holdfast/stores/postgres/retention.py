"""What is past its retention, removed: ended jobs with all that belongs to them, keys, workers and slots."""

from collections.abc import Sequence
from datetime import timedelta

from holdfast.core import limits
from holdfast.core.commands import Tick
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.sweeps import FIRST, RETENTION_LOOKS, Place, Retention


class Removing(Locking):
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
