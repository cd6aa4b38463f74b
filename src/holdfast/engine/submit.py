"""Submit: concurrent callers in one process share statements and commits.

There is no timed wait for company. A submit that finds nobody under way goes at once; those that arrive meanwhile go
together as soon as that call has ended. So one at a time costs what one costs, and many at a time little more than one.

Where the store may hold submits, one with a key or dependencies may have to wait for somebody's transaction. Those
share calls with each other only, beside the others; what the store answers with Unavailable by itself is kept apart,
and tried again until its caller gives up.

SUBMIT-1. A submit returns only after the commit that accepted it, or raises.
SUBMIT-2. Submits that share a call are independent: a refusal, or a caller that gives up, disturbs nobody else. Nor
    does one that waits for a key or a job that somebody holds.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.core import limits
from holdfast.core.batches import are_plain
from holdfast.core.commands import Submit, SubmitAnswer, Submitted
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.ports import Store

SHARED_JOBS: Final = 1000
"""How many jobs one shared call carries at the most, unless a single submit has more."""
KEYED_JOBS: Final = 100
"""The same for submits with keys or dependencies, all of which the store locks."""
KEYED_CALLS: Final = 4
"""How many of these calls are under way at a time."""
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Waiting:
    submit: Submit
    jobs: int
    answer: asyncio.Future[SubmitAnswer]
    ends_at: float
    """On the loop's clock: when its caller is told that there is no acknowledgement."""
    held: Unavailable | None = None
    """What the store last said of this one, where somebody holds what it needs."""


@dataclass(slots=True)
class _Line:
    """Submits that wait for a call, and the tasks that make the calls."""

    most_calls: int
    most_jobs: int
    waiting: deque[_Waiting] = field(default_factory=deque)
    senders: set[asyncio.Task[None] | None] = field(default_factory=set)


class Submitter:
    def __init__(self, store: Store, *, timeout_seconds: float = limits.DEFAULT_SUBMISSION_SECONDS) -> None:
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._unanswered: deque[_Waiting] = deque()
        """Those that wait and those under way, as they came; some may be answered already."""
        # Two calls of five jobs cost more than one of ten: with two cores free, two at a time got 4 % more through, and
        # on a busy machine a quarter less.
        self._line = _Line(most_calls=1, most_jobs=SHARED_JOBS)
        self._beside = _Line(most_calls=KEYED_CALLS, most_jobs=KEYED_JOBS)
        self._held: list[_Waiting] = []
        self._repeater: asyncio.Task[None] | None = None
        self._is_alone = False
        self._watch: asyncio.TimerHandle | None = None

    async def submit(self, submit: Submit, *, connection: Any = None) -> tuple[Submitted, ...]:
        """Accept jobs, whole or not at all. Unavailable after the submission timeout: safe to repeat as it was."""
        if connection is not None:
            # The caller's own transaction: it cannot be shared.
            (answer,) = await self._store.submit([submit], connection=connection)
            return _accepted(answer)
        if self._store.may_hold_submits and not are_plain(submit.jobs):
            return _accepted(await self._share(submit, self._beside))
        if self._is_alone or self._line.senders:
            return _accepted(await self._share(submit, self._line))
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._submit_at_once(submit)
                if isinstance(answer, Unavailable):
                    answer = await self._share(submit, self._beside)
                return _accepted(answer)
        except TimeoutError:
            raise self._unacknowledged() from None

    async def _submit_at_once(self, submit: Submit) -> SubmitAnswer:
        """Nobody to share with: in the caller's own task, which saves two turns of the loop."""
        self._is_alone = True
        try:
            (answer,) = await self._store.submit([submit])
        finally:
            self._is_alone = False
            self._start_sender(self._line)
        return answer

    # sharing

    def _share(self, submit: Submit, line: _Line) -> asyncio.Future[SubmitAnswer]:
        loop = asyncio.get_running_loop()
        one = _Waiting(submit, len(submit.jobs), loop.create_future(), loop.time() + self._timeout_seconds)
        self._unanswered.append(one)
        if self._watch is None:
            self._watch = loop.call_at(one.ends_at, self._give_up)
        line.waiting.append(one)
        self._start_sender(line)
        return one.answer

    def _start_sender(self, line: _Line) -> None:
        under_way = len(line.senders) + (self._is_alone and line is self._line)
        if line.waiting and under_way < line.most_calls:
            sender = asyncio.get_running_loop().create_task(self._send(line))
            line.senders.add(sender)
            # For one that never began, or has ended already.
            sender.add_done_callback(line.senders.discard)

    async def _send(self, line: _Line) -> None:
        # A task of its own, so that a caller's cancellation never ends a commit that others share (SUBMIT-2).
        try:
            while batch := _take(line.waiting, most_jobs=line.most_jobs):
                await self._answer(batch)
                # One turn of the loop, in which those just answered may come with their next: they share that call.
                await asyncio.sleep(0)
        finally:
            # Not only when the task is done, which is a turn later: who came in between would be left behind.
            line.senders.discard(asyncio.current_task())

    async def _answer(self, batch: list[_Waiting]) -> None:
        answers: list[SubmitAnswer] = []
        try:
            answers = await self._store.submit([one.submit for one in batch])
            for one, answer in zip(batch, answers, strict=True):
                one.held = answer if isinstance(answer, Unavailable) else None
        except HoldfastError as error:
            answers = [error] * len(batch)
        except BaseException as error:
            answers = [Unavailable(f"the submit was interrupted: {error!r}")] * len(batch)
            if not isinstance(error, Exception):
                raise
        finally:
            for one, answer in zip(batch, answers, strict=True):
                if not one.answer.done():
                    self._tell(one, answer)
            self._forget_answered()

    def _tell(self, one: _Waiting, answer: SubmitAnswer) -> None:
        if one.held is answer:
            self._held.append(one)
            if self._repeater is None:
                self._repeater = asyncio.get_running_loop().create_task(self._send_held())
        else:
            one.answer.set_result(answer)

    # held by somebody

    async def _send_held(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        try:
            while self._held:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
                held, self._held = deque(self._held), []
                while batch := _take(held, most_jobs=KEYED_JOBS):
                    await self._answer(batch)
        finally:
            self._repeater = None

    # giving up

    def _give_up(self) -> None:
        """One timer for all, set for the one that came first: a timer for each would cost as much as its job."""
        loop = asyncio.get_running_loop()
        for one in self._unanswered:
            if one.ends_at <= loop.time() and not one.answer.done():
                one.answer.set_exception(self._unacknowledged(one.held))
        self._forget_answered()
        first = self._unanswered[0] if self._unanswered else None
        self._watch = loop.call_at(first.ends_at, self._give_up) if first else None

    def _forget_answered(self) -> None:
        while self._unanswered and self._unanswered[0].answer.done():
            self._unanswered.popleft()

    def _unacknowledged(self, held: Unavailable | None = None) -> Unavailable:
        reason = f" ({held})" if held is not None else ""
        return Unavailable(
            f"no acknowledgement within {self._timeout_seconds} s{reason}; the jobs may or may not have been accepted: "
            "repeat the same submit, it cannot double them"
        )


def _take(line: deque[_Waiting], *, most_jobs: int) -> list[_Waiting]:
    batch: list[_Waiting] = []
    jobs = 0
    while line:
        if batch and jobs + line[0].jobs > most_jobs:
            break
        one = line.popleft()
        if not one.answer.done():
            batch.append(one)
            jobs += one.jobs
    return batch


def _accepted(answer: SubmitAnswer) -> tuple[Submitted, ...]:
    if isinstance(answer, HoldfastError):
        raise answer
    return answer
