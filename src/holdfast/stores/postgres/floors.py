"""The refresh of the claims' cursors, once a second beside the claims for as long as one is owed.

It is a task of its own, because a search may have many dead rows to walk over, and no claim should wait for that. What
it finds is claimed next: whoever waits for work in that queue is woken.
"""

import asyncio
import contextlib
import time
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.stores.postgres.cursors import ClaimCursors, Holders, Question, of_types
from holdfast.stores.postgres.database import Database


class Floors:
    def __init__(self, database: Database, cursors: ClaimCursors) -> None:
        self._database = database
        self._cursors = cursors
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def start(self) -> None:
        """After a claim. Costs nothing while a refresh is under way or to come."""
        if self._task is None and self._cursors.is_refresh_owed(monotonic=time.monotonic()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._cursors.is_refresh_owed(monotonic=time.monotonic()):
                await asyncio.sleep(self._cursors.seconds_until_refresh(monotonic=time.monotonic()))
                # A server that is away: the next one may succeed, and looks from the beginning.
                with contextlib.suppress(HoldfastError):
                    await self.refresh()
        finally:
            self._task = None

    async def refresh(self) -> None:
        async with self._turn:
            await self._refresh()

    async def _refresh(self) -> None:
        furthest = self._cursors.furthest()
        try:
            (row,) = await self._database.fetch(self._database.sql["claim.holders"])
        finally:
            monotonic = time.monotonic()
            self._cursors.note_refresh(monotonic=monotonic)
        holders = Holders(row["place"], frozenset(row["holders"]), row["server"])
        question = self._cursors.question(holders, furthest=furthest, monotonic=monotonic)
        found = self._cursors.refresh(question, await self._first_places(question))
        # Other processes find out for themselves.
        self._database.announce(found, is_told=True)

    async def _first_places(self, question: Question) -> list[int | None]:
        places: list[int | None] = [None] * len(question.lanes)
        for types, positions in of_types(question.lanes).items():
            columns: list[list[Any]] = [[column[n] for n in positions] for column in question.columns]
            names = list(types) if types is not None else None
            rows = await self._database.fetch(self._database.sql["claim.floors"], *columns, names)
            for position, row in zip(positions, rows, strict=True):
                places[position] = row["place"]
        return places
