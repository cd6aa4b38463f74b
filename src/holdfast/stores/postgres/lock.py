"""The beginning of every transaction: what it knows, and whom it locks.

How it works: whatever a verb decides about is locked first, wherever it stands (``lock``). A job that moved between
tables while we waited for its lock is looked for again, without waiting. Who waits, in which order and for how long, is
said in ``locks``; where a lock cannot be had, ``Held`` ends the transaction, and ``Database`` decides what is next.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from holdfast.core.job import Record
from holdfast.stores.postgres.connections import Executor
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of
from holdfast.stores.postgres.locks import Held, Waiting
from holdfast.stores.postgres.rows import Row, record_from
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.postgres.sweeps import Searches, Sweeps

LOOKS: Final = 3
"""For a job that moves while it is to be locked."""


class Locking:
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
