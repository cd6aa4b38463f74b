"""Looks at the tables a few times a second, and tells the watch what it saw."""

import asyncio
import contextlib

from chaos.databases import Away, Database
from chaos.excuses import Excuses
from chaos.overdue import LOOK_SECONDS, Service, Watch


class Watcher:
    def __init__(self, database: Database, excuses: Excuses, services: dict[str, Service]) -> None:
        self._database = database
        self._excuses = excuses
        self.watch = Watch(services)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            # A store that does not answer leaves a gap, which the watch sees.
            with contextlib.suppress(Away):
                before = self._excuses.now()
                look = await asyncio.to_thread(self._database.look)
                self.watch.look(look, before.joined(self._excuses.now()))
            await asyncio.sleep(LOOK_SECONDS)
