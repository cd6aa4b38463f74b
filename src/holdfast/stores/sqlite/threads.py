"""The end of a thread, awaited without starting another: an interpreter that shuts down lets none begin."""

import asyncio
from threading import Thread
from typing import Final

LOOK_SECONDS: Final = 0.001


async def ended(thread: Thread) -> None:
    while thread.is_alive():  # noqa: ASYNC110 - a thread's last act sets no event
        await asyncio.sleep(LOOK_SECONDS)
