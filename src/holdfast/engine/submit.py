"""Submit: concurrent callers in one process share a statement and a commit.

There is no timed wait for company. A submit that finds the store idle goes at once; those that arrive while it is under
way go together when it is done. So one at a time costs what one costs, and many at a time cost little more than one.

E1. A submit returns only after the commit that accepted it, or raises.
E2. Submits that share a call are independent: a refusal, or a caller that gives up, disturbs nobody else.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from holdfast.core import limits
from holdfast.core.commands import Submit, SubmitAnswer, Submitted
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.ports import Store

SHARED_JOBS: Final = 1000
"""How many jobs one shared call carries at the most, unless a single submit has more."""


@dataclass(slots=True)
class _Waiting:
    submit: Submit
    answer: asyncio.Future[SubmitAnswer]


class Submitter:
    def __init__(self, store: Store, *, timeout_seconds: float = limits.DEFAULT_SUBMISSION_SECONDS) -> None:
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._waiting: deque[_Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._is_alone = False

    async def submit(self, submit: Submit, *, connection: Any = None) -> tuple[Submitted, ...]:
        """Accept jobs, whole or not at all. Unavailable after the submission timeout: safe to repeat as it was."""
        if connection is not None:
            # The caller's own transaction: it cannot be shared.
            (answer,) = await self._store.submit([submit], connection=connection)
            return _accepted(answer)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return _accepted(await (self._submit_at_once(submit) if self._is_idle else self._submit_shared(submit)))
        except TimeoutError:
            raise Unavailable(
                f"no acknowledgement within {self._timeout_seconds} s; the jobs may or may not have been accepted: "
                "repeat the same submit, it cannot double them"
            ) from None

    @property
    def _is_idle(self) -> bool:
        return not self._is_alone and self._sender is None

    async def _submit_at_once(self, submit: Submit) -> SubmitAnswer:
        """Nobody to share with: in the caller's own task, which saves two turns of the loop."""
        self._is_alone = True
        try:
            (answer,) = await self._store.submit([submit])
        finally:
            self._is_alone = False
            if self._waiting:
                self._sender = asyncio.create_task(self._send())
        return answer

    async def _submit_shared(self, submit: Submit) -> SubmitAnswer:
        future: asyncio.Future[SubmitAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(submit, future))
        return await future

    async def _send(self) -> None:
        # A task of its own, so that a caller's cancellation never ends a commit that others share (E2).
        try:
            while self._waiting:
                await self._send_batch(self._take_batch())
                # One turn of the loop, in which those just answered may come with their next: they share that call.
                await asyncio.sleep(0)
        finally:
            self._sender = None

    def _take_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        jobs = 0
        while self._waiting and (not batch or jobs + len(self._waiting[0].submit.jobs) <= SHARED_JOBS):
            one = self._waiting.popleft()
            if not one.answer.cancelled():
                batch.append(one)
                jobs += len(one.submit.jobs)
        return batch

    async def _send_batch(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        answers: list[SubmitAnswer]
        try:
            answers = await self._store.submit([one.submit for one in batch])
        except HoldfastError as error:
            answers = [error] * len(batch)
        except BaseException as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(Unavailable(f"the submit was interrupted: {error!r}"))
            raise
        for one, answer in zip(batch, answers, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)


def _accepted(answer: SubmitAnswer) -> tuple[Submitted, ...]:
    if isinstance(answer, HoldfastError):
        raise answer
    return answer
