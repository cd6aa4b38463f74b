"""Tasks that no handler can cancel.

Handlers share the worker's event loop, and ``asyncio.all_tasks()`` shows them the worker's own tasks beside theirs. One
that cancels all of them would end claims, settlements or its neighbours.

TASK-1. A task made here is not cancelled by a handler, nor by what a handler has started; only by the worker, and an
    attempt's task also by its own handler. A refusal is logged, once for each attempt.
TASK-2. It runs in the worker's context, whoever made it: what it logs belongs to no attempt.
"""

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from holdfast.worker import capture

LOG: Final = logging.getLogger("holdfast.worker")
Answer = TypeVar("Answer")


class OwnTask(asyncio.Task[Answer]):
    """``attempt`` is the log of the attempt whose handler runs in it, if one does."""

    __slots__ = ("attempt",)

    def __init__(
        self,
        work: Coroutine[Any, Any, Answer],
        *,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        attempt: capture.Capture | None = None,
    ) -> None:
        # First: a loop with eager tasks may have them run to their end inside of the next line.
        self.attempt = attempt
        super().__init__(work, loop=loop, context=context)

    def cancel(self, msg: Any = None) -> bool:
        caller = capture.current()
        if caller is None or caller is self.attempt:
            return super().cancel(msg)
        if not caller.has_tried_to_cancel:
            caller.has_tried_to_cancel = True
            caller.note("tried to cancel tasks that are not its own", level="WARNING")
            LOG.warning(
                "a handler tried to cancel tasks of the worker, which go on; asyncio.all_tasks() shows them, too",
                extra={"event": "cancel_refused"},
            )
        return False

    def end(self) -> None:
        """Cancel it, whoever asks: for the worker's own use."""
        super().cancel()


def start(work: Coroutine[Any, Any, Answer], *, context: contextvars.Context | None = None) -> OwnTask[Answer]:
    """A task of the worker's own; in a context of ``own_context``, where the caller's may be an attempt's."""
    return OwnTask(work, loop=asyncio.get_running_loop(), context=own_context() if context is None else context)


def own_context() -> contextvars.Context:
    """A copy of the caller's that belongs to no attempt."""
    context = contextvars.copy_context()
    context.run(capture.leave)
    return context
