"""Asking and telling: what an app says of its jobs, queues and workers, and what a person can do to them."""

import builtins
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from holdfast.app.options import HasId, id_of
from holdfast.app.runtime import Runtime
from holdfast.core import limits
from holdfast.core.commands import (
    CancelAnswer,
    Filter,
    Page,
    QueueStats,
    ReplayAnswer,
    ReplayPage,
    WorkerInfo,
)
from holdfast.core.job import Attempt, Job
from holdfast.core.states import State

JobId = UUID | str | HasId
"""A job's ID, as a UUID or as text; or what has one: a handle, a call, a job."""


class ListOptions(TypedDict, total=False):
    """``app.list(…)``: all that is given must hold."""

    states: Iterable[State] | State
    queue: str
    type: str
    group: str
    tag: tuple[str, str]
    created_from: datetime
    """Inclusive."""
    created_until: datetime
    """Exclusive."""


class Management:
    """The part of an app that needs no function of yours."""

    _runtime: Runtime

    async def get(self, job: JobId) -> Job:
        """A job as it stands now; JobNotFound where there is none (any more)."""
        return await self._runtime.client.engine.get(id_of(job))

    async def list(
        self, *, limit: int = limits.DEFAULT_PAGE_JOBS, cursor: int | None = None, **where: Unpack[ListOptions]
    ) -> Page:
        """Jobs, newest first. A page may be short and still have a ``next_cursor``: go on until there is none.

        ::

            page = await app.list(states=State.FAILED, queue="media")
            rest = await app.list(states=State.FAILED, queue="media", cursor=page.next_cursor)
        """
        return await self._runtime.client.engine.read_page(filter_of(where), limit=limit, cursor=cursor)

    async def cancel(self, *jobs: JobId) -> builtins.list[CancelAnswer]:
        """One answer a job. A job that runs is told to stop, and ends CANCELLED when it has."""
        return await self._runtime.client.engine.cancel([id_of(job) for job in jobs])

    async def replay(self, *jobs: JobId) -> builtins.list[ReplayAnswer]:
        """Run FAILED and DEAD_LETTER jobs again, with all their attempts; others are left as they are."""
        return await self._runtime.client.engine.replay([id_of(job) for job in jobs])

    async def replay_where(
        self, *, limit: int = limits.MAX_PAGE_JOBS, cursor: int | None = None, **where: Unpack[ListOptions]
    ) -> ReplayPage:
        """Replay one page of the FAILED and DEAD_LETTER jobs that match, as ``list`` does; go on with its cursor.

        ::

            page = await app.replay_where(queue="media", type="resize")
        """
        return await self._runtime.client.engine.replay_where(filter_of(where), limit=limit, cursor=cursor)

    async def attempts(self, job: JobId) -> builtins.list[Attempt]:
        """The attempts that were spent without success, oldest first, each with its error and trace."""
        return await self._runtime.client.engine.read_attempts(id_of(job))

    async def why(self, job: JobId) -> str:
        """In one sentence, why the job is not running, or that it is."""
        return await self._runtime.client.engine.why(id_of(job))

    async def pause(self, queue: str) -> None:
        """No job of the queue is started until ``resume``; those that run go on."""
        await self._runtime.client.engine.pause(queue)

    async def resume(self, queue: str) -> None:
        await self._runtime.client.engine.resume(queue)

    async def queues(self) -> builtins.list[QueueStats]:
        """Every queue, with how many of its jobs are in each state."""
        return await self._runtime.client.engine.read_queues()

    async def workers(self) -> builtins.list[WorkerInfo]:
        """The workers that are alive, and those that were lost lately."""
        return await self._runtime.client.engine.read_workers()

    # for programs without an event loop

    def get_sync(self, job: JobId) -> Job:
        job_id = id_of(job)
        return self._runtime.call_sync("get_sync", lambda client: client.engine.get(job_id), instead="await app.get(…)")

    def list_sync(
        self, *, limit: int = limits.DEFAULT_PAGE_JOBS, cursor: int | None = None, **where: Unpack[ListOptions]
    ) -> Page:
        wanted = filter_of(where)
        return self._runtime.call_sync(
            "list_sync",
            lambda client: client.engine.read_page(wanted, limit=limit, cursor=cursor),
            instead="await app.list(…)",
        )

    def cancel_sync(self, *jobs: JobId) -> builtins.list[CancelAnswer]:
        ids = [id_of(job) for job in jobs]
        return self._runtime.call_sync(
            "cancel_sync", lambda client: client.engine.cancel(ids), instead="await app.cancel(…)"
        )

    def replay_sync(self, *jobs: JobId) -> builtins.list[ReplayAnswer]:
        ids = [id_of(job) for job in jobs]
        return self._runtime.call_sync(
            "replay_sync", lambda client: client.engine.replay(ids), instead="await app.replay(…)"
        )


def filter_of(where: ListOptions) -> Filter:
    states = where.get("states")
    wanted = (states,) if isinstance(states, State) else states
    given: dict[str, Any] = {**where, "states": None if wanted is None else frozenset(wanted)}
    return Filter(**given)
