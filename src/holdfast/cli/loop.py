"""The event loop of a worker that has a process to itself.

uvloop where it is installed (``pip install holdfast[fast]``). And a cycle collector that leaves what was imported
alone and looks at the rest more seldom: a batch of jobs is hundreds of objects that live for a moment and hold no
cycles.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

Answer = TypeVar("Answer")

YOUNG_OBJECTS: Final = 10_000
OLDER_ROUNDS: Final = 20


def run_alone(work: Coroutine[Any, Any, Answer]) -> Answer:
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, OLDER_ROUNDS, OLDER_ROUNDS)
    # Not inside the except block: whatever a handler raised would carry our ImportError as its context.
    return _runner()(work)


def _runner() -> Callable[[Coroutine[Any, Any, Answer]], Answer]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run
