"""Looks at the tables a few times a second, and tells the watch what it saw.

The proxies live in the same process. So a look that takes long, because many jobs wait, is followed by a longer rest.
"""

import asyncio
import contextlib
import time
from typing import Final

from chaos.databases import Away, Database
from chaos.excuses import Excuses
from chaos.overdue import LOOK_SECONDS, Service, Watch

REST_PART: Final = 3.0
"""So many times as long as the look took."""
LONGEST_REST_SECONDS: Final = 0.8


class Watcher:
    def __init__(self, database: Database, excuses: Excuses, services: dict[str, Service]) -> None:
        self._database = database
        self._excuses = excuses
        self.watch = Watch(services)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> list[str]:
        """What kept it from looking on, if anything: a watch that has ended early has proved nothing."""
        task, self._task = self._task, None
        if task is None:
            return []
        task.cancel()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        return [] if isinstance(error, asyncio.CancelledError) else [f"the watch has ended: {error!r}"]

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            # A store that does not answer leaves a gap, which the watch sees.
            with contextlib.suppress(Away):
                before = self._excuses.now()
                look = await asyncio.to_thread(self._database.look)
                await asyncio.to_thread(self.watch.look, look, before.joined(self._excuses.now()))
            rest = REST_PART * (time.monotonic() - began)
            await asyncio.sleep(min(max(LOOK_SECONDS, rest), LONGEST_REST_SECONDS))
