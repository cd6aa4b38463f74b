"""Handlers of child processes and threads, run where a test can reach them: ``testing.run(app, inline=True)``.

A test with an event loop has its thread taken by the loop, so plain functions run in threads there. A test without one
lends its own thread: it runs the plain functions itself while it waits for the drain, and they see its database
transaction, its patches and everything else that belongs to a thread.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from holdfast.worker.handler import Handler, Isolation, Registry

T = TypeVar("T")


def without_processes(registry: Registry) -> Registry:
    return _changed(registry, _in_this_process)


def _in_this_process(handler: Handler) -> Handler:
    return replace(handler, isolation=Isolation.LOOP if handler.is_async else Isolation.THREAD)


def _changed(registry: Registry, change: Callable[[Handler], Handler]) -> Registry:
    changed = Registry()
    for handler in registry.values():
        changed.add(change(handler))
    return changed


class LentThread:
    """The thread of a test, which runs plain handlers while it waits."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def registry(self, registry: Registry) -> Registry:
        return _changed(registry, self._called_here)

    def wait(self, future: Future[T]) -> T:
        """Until the future is done, run what is asked for."""
        future.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._calls.get()) is not None:
            call()
        return future.result()

    def _called_here(self, handler: Handler) -> Handler:
        if handler.is_async:
            return replace(handler, isolation=Isolation.LOOP)
        function = handler.function

        async def called_here(*args: Any, **kwargs: Any) -> Any:
            return await self._call(partial(function, *args, **kwargs))

        called_here.__module__, called_here.__qualname__ = function.__module__, function.__qualname__
        return replace(handler, function=called_here, is_async=True, isolation=Isolation.LOOP)

    async def _call(self, function: Callable[[], Any]) -> Any:
        done: Future[tuple[Any, BaseException | None]] = Future()
        context = contextvars.copy_context()

        def call() -> None:
            answer: tuple[Any, BaseException | None]
            try:
                answer = context.run(function), None
            except BaseException as error:
                # Not as the future's exception: some of what a handler can raise would do more than fail.
                answer = None, error
            if done.set_running_or_notify_cancel():
                done.set_result(answer)

        self._calls.put(call)
        result, error = await asyncio.wrap_future(done)
        if error is not None:
            raise error
        return result


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
    """On an event loop in a thread of its own, which ends with it."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(lambda: asyncio.run(work())))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="holdfast-test", daemon=True).start()
    return future
