"""Claims jobs ahead of free slots: as many as are used up in a moment, none where jobs take long.

FETCHER-1. At most one claim is under way. Its answer, if lost, is asked for again with the same nonce, so that no lease
    is left behind.
FETCHER-2. No more jobs of a limited queue are claimed than its limit leaves.
FETCHER-3. With weights, a batch is made up of all queues that have work, by their weights.
FETCHER-4. What was claimed and not started is handed back when the worker stops, and spends no attempt.
FETCHER-5. Only job types that have a handler here are claimed; others are left for workers that know them.
FETCHER-6. A reclaimed job may be one that kills this process, and what is claimed beside it would lose an attempt. So
    it is started at once, and the next claim waits a moment for its end.
FETCHER-7. With nothing to do it sleeps until the delivery has a hint; the poll is only for wake-ups that were lost.
FETCHER-8. Jobs that hints name are claimed by their IDs, before more hints are asked for, and no more of them than
    there are free slots. Every hint goes back (``receipts``). Where a delivery tells of everything, nothing else is
    claimed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from typing import Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import BUSY, ClaimIdAnswer, Hint, NotClaimed, WhyNot
from holdfast.core.errors import Unavailable
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Delivery
from holdfast.worker import tasks
from holdfast.worker.claimer import Claimer
from holdfast.worker.executor import Executor
from holdfast.worker.leases import Leases
from holdfast.worker.options import WorkerOptions
from holdfast.worker.patience import Outage, Patience
from holdfast.worker.receipts import Receipts

PREFETCH_SECONDS: Final = 0.1
"""Claimed ahead is what the slots use up in this time."""
MAX_PREFETCH: Final = 2000
CAREFUL_SECONDS: Final = 10.0
APART_SECONDS: Final = 0.05
APART_LOOKS: Final = 10
HURRIED_LISTEN_SECONDS: Final = 0.1
TURNS_TO_STAND: Final = 2
"""Turns of the loop until a new task that waits has taken its place with the delivery."""


class Fetcher:
    def __init__(
        self,
        claimer: Claimer,
        delivery: Delivery,
        receipts: Receipts,
        *,
        leases: Leases,
        options: WorkerOptions,
        executor: Executor,
        may_start: Callable[[], bool],
        on_jobs: Callable[[], None],
        on_woken: Callable[[], None],
        outage: Outage,
    ) -> None:
        self._claimer = claimer
        self._delivery = delivery
        self._receipts = receipts
        self._leases = leases
        self._options = options
        self._executor = executor
        self._may_start = may_start
        self._on_jobs = on_jobs
        self._on_woken = on_woken
        self._waiting = Patience("wait for jobs", outage)
        self._room = asyncio.Event()
        self._freed = asyncio.Event()
        self._empty: set[str] = set()
        """Queues that had nothing when they were last asked; forgotten with every wake-up."""
        self._careful_until = 0.0
        self._wakeup: asyncio.Task[None] | None = None
        self._is_standing = False
        """Whether the wake-up's task has had its turns to take its place."""
        self._listen_at = 0.0
        self._is_deaf = False
        """Something may have become claimable, or due later, while nobody listened."""
        self._named: list[Hint] = []
        """Heard, and not claimed yet."""
        self._is_told_to_look = False
        self._prefetch_bound = 0
        self.low_water = 0
        """As long as more than this is ready, no more is wanted."""
        self._in_hand: Counter[str] = Counter()
        self.ready: deque[ClaimedJob] = deque()
        """Claimed, not started."""

    def note_room(self) -> None:
        """A slot is free, or there is less in hand than there was. Not called above ``low_water``."""
        if not self._room.is_set() and self._wanted() > 0:
            self._room.set()

    def claim_no_more_ahead(self) -> None:
        """What was claimed ahead had to wait too long: begin again, and small."""
        self._prefetch_bound = 0

    def drop(self, tokens: Container[UUID]) -> list[ClaimedJob]:
        """Take those with such a lease out of what is ready."""
        dropped = [job for job in self.ready if job.lease.token in tokens]
        for job in dropped:
            self.ready.remove(job)
            self.note_ended(job.queue)
        return dropped

    def note_ended(self, queue: str) -> None:
        if self._options.limits:
            self._in_hand[queue] -= 1
            if queue in self._options.limits:
                self._freed.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run()
        finally:
            if self._wakeup is not None:
                self._wakeup.cancel()
            self._give_back_named()

    async def _run(self) -> None:
        is_exhausted = True
        while True:
            wanted = self._wanted()
            if wanted <= 0:
                self._give_back_named()
                self.low_water = self._ahead() // 2 + 1
                self._room.clear()
                await self._room.wait()
            elif self._named:
                # Before more hints are asked for: these are for the slots that are free now.
                is_exhausted = self._begin(await self._claim_named(wanted), wanted)
            elif self._delivery.tells_all and not self._is_told_to_look:
                await self._hear_of_more(wanted)
            else:
                is_exhausted = await self._look(wanted, is_exhausted=is_exhausted)

    async def _look(self, wanted: int, *, is_exhausted: bool) -> bool:
        """Claim from the queues; where that was all there is, sleep until there is a hint. Returns whether it was."""
        # While there is more than is asked for, a wake-up is nothing to wait for.
        is_hurried = not is_exhausted and not self._empty
        await self._listen(wanted, is_hurried=is_hurried)
        self._freed.clear()
        self._is_told_to_look = False
        claimed = await self._claim(wanted)
        is_exhausted = self._begin(claimed, wanted)
        self._is_told_to_look |= not is_exhausted
        if is_exhausted and not is_hurried and not (claimed and self._is_careful()):
            await self._sleep()
        return is_exhausted

    async def _hear_of_more(self, wanted: int) -> None:
        self._freed.clear()
        await self._listen(wanted, is_hurried=False)
        await self._sleep()
        if self._wakeup is not None and not self._wakeup.done():
            # There is room in other queues than there was.
            self._wakeup.cancel()
            await asyncio.wait([self._wakeup])

    def _begin(self, claimed: int, wanted: int) -> bool:
        """What was claimed begins to run. Returns whether it was all there is."""
        is_exhausted = claimed < wanted
        self._prefetch_bound = 0 if is_exhausted else min(max(2 * self._prefetch_bound, claimed), MAX_PREFETCH)
        if claimed and is_exhausted:
            self._on_jobs()
        elif claimed:
            # After the next claim has gone out: the store works on that while these run.
            asyncio.get_running_loop().call_soon(self._on_jobs)
        return is_exhausted

    def _give_back_named(self) -> None:
        """There is no slot for them after all."""
        named, self._named = self._named, []
        for hint in named:
            self._receipts.give_back(hint)

    def _is_careful(self) -> bool:
        """Jobs that were reclaimed lie in the queues: they come alone, so a short answer need not be all there is."""
        return asyncio.get_running_loop().time() < self._careful_until

    def _wanted(self) -> int:
        if not self._may_start():
            return 0
        free = self._options.concurrency - len(self._executor.running)
        ahead = self._ahead()
        missing = free + ahead - len(self.ready)
        # Small top-ups would cost a statement each: wait until half of it is used up.
        return min(missing, limits.MAX_CLAIM_JOBS) if missing > ahead // 2 else 0

    def _ahead(self) -> int:
        mean = self._executor.mean_seconds
        if mean is None or mean > PREFETCH_SECONDS:
            return 0
        used_up = self._options.concurrency * PREFETCH_SECONDS / max(mean, 1e-6)
        return int(min(used_up, self._prefetch_bound))

    async def _claim(self, wanted: int) -> int:
        """How many jobs were claimed; they are ready."""
        claimed = 0
        for queues, room in self._portions(wanted):
            limit = min(wanted - claimed, room)
            if limit > 0:
                got = await self._claim_from(queues, limit)
                claimed += got
                if got < limit:
                    self._empty.update(queues)
        return claimed

    def _portions(self, wanted: int) -> Iterator[tuple[tuple[str, ...], int]]:
        """From which queues to claim, one claim after the other, and how many at the most."""
        order = self._options.in_claim_order()
        weights = self._options.queues
        if isinstance(weights, Mapping) and wanted >= 2 * len(order) > 2:
            # A whole batch from the queue that happens to come first would be no mixture.
            lively = {queue: weights[queue] for queue in order if queue not in self._empty}
            total = sum(lively.values())
            for queue, weight in lively.items():
                yield (queue,), min(ceil(wanted * weight / total), self._room_of(queue))
        if not self._options.limits:
            yield order, wanted
            return
        for is_limited, group in groupby(order, key=lambda queue: queue in self._options.limits):
            if is_limited:
                yield from (((queue,), self._room_of(queue)) for queue in group)
            else:
                yield tuple(group), wanted

    def _room_of(self, queue: str) -> int:
        limit = self._options.limits.get(queue)
        return limits.MAX_CLAIM_JOBS if limit is None else limit - self._in_hand[queue]

    async def _claim_from(self, queues: tuple[str, ...], limit: int) -> int:
        return await self._take(await self._claimer.claim(queues, limit))

    async def _claim_named(self, wanted: int) -> int:
        """FETCHER-8. How many of the jobs that hints have named were claimed; they are ready."""
        claimed = 0
        while self._named:
            queue = self._named[0].queue
            hints = [hint for hint in self._named if hint.queue == queue]
            self._named = [hint for hint in self._named if hint.queue != queue]
            claimed += await self._claim_hints(hints, str(queue), wanted - claimed)
        return claimed

    async def _claim_hints(self, hints: Sequence[Hint], queue: str, wanted: int) -> int:
        is_served = queue in self._options.queue_names
        ids = tuple(dict.fromkeys(job_id for hint in hints for job_id in hint.ids))
        chosen = ids[: max(0, min(wanted, self._room_of(queue)))] if is_served else ()
        answers: dict[UUID, ClaimIdAnswer] = dict.fromkeys(ids, BUSY if is_served else NotClaimed(WhyNot.FOREIGN))
        answers |= zip(chosen, await self._claimer.claim_ids(chosen, queue), strict=True) if chosen else ()
        for hint in hints:
            self._receipts.hold(hint, [answers[job_id] for job_id in hint.ids])
        return await self._take([answer for answer in answers.values() if isinstance(answer, ClaimedJob)])

    async def _take(self, jobs: Sequence[ClaimedJob]) -> int:
        """What was claimed is ready from here on."""
        self.ready.extend(jobs)
        if self._options.limits:
            self._in_hand.update(job.queue for job in jobs)
        if jobs and jobs[0].previous_attempt_id is not None:
            self._careful_until = asyncio.get_running_loop().time() + CAREFUL_SECONDS
        if jobs and jobs[0].was_reclaimed:
            self._on_jobs()
            await self._stand_apart(jobs[0].lease.token)
        return len(jobs)

    async def _stand_apart(self, token: UUID) -> None:
        """FETCHER-6. Until that job's outcome is stored, or for a moment."""
        for _ in range(APART_LOOKS):
            if token not in self._leases:
                return
            await asyncio.sleep(APART_SECONDS / APART_LOOKS)

    # being woken

    async def _listen(self, wanted: int, *, is_hurried: bool) -> None:
        """Before a claim: what becomes claimable after the claim has looked must not be missed.

        ``is_hurried``: it may be, for there will be another claim before any sleep. News are then only of what is due
        later (``on_woken``), and listened for now and then: to wait can cost a store more than to claim. What was
        missed is made up for with the next claim, or by the tick.
        """
        loop = asyncio.get_running_loop()
        if self._wakeup is None or self._wakeup.done():
            if is_hurried and loop.time() < self._listen_at:
                self._is_deaf = True
                return
            if self._is_deaf:
                self._is_deaf = False
                self._on_woken()
            self._listen_at = loop.time() + HURRIED_LISTEN_SECONDS
            self._empty.clear()
            self._wakeup = tasks.start(self._hear(wanted))
            self._is_standing = False
        if not is_hurried and not self._is_standing:
            self._is_standing = True
            for _ in range(TURNS_TO_STAND):
                await asyncio.sleep(0)

    async def _sleep(self) -> None:
        assert self._wakeup is not None
        if not self._options.limits:
            await self._wakeup
            return
        # A limited queue may have had more than was asked for: the end of one of its jobs is news, too.
        freed = tasks.start(self._freed.wait())
        try:
            await asyncio.wait([self._wakeup, freed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            freed.cancel()

    async def _hear(self, wanted: int) -> None:
        room = {queue: min(wanted, max(0, self._room_of(queue))) for queue in self._options.queue_names}
        try:
            hints = await self._delivery.receive(room, limit=wanted, timeout_seconds=self._options.poll_seconds)
        except Unavailable as error:
            await self._waiting.wait(error)
            return
        self._waiting.done()
        self._named += [hint for hint in hints if hint.names_jobs]
        others = [hint for hint in hints if not hint.names_jobs]
        for hint in others:
            self._receipts.hold(hint)
        if others:
            self._is_told_to_look = True
            self._on_woken()
