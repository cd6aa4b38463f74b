"""Which workers live, and which of them has which job. Pure: the time comes from the stopwatch it is given.

A worker lives while its heartbeats come: without one for 4 s it is lost, and so are the jobs that it has. A heartbeat
may also name the jobs that the worker has. That is how this table is right again after what no timeout shows:

- the answer that brought a job never arrived, or the worker was restarted under its name within the 4 s: the job is not
  among those that it names. Only a job that was handed out long enough ago counts as missing; a younger one may still
  have been on its way when the heartbeat was made;
- the coordinator was restarted and knows nothing: what a worker names and nobody else has is that worker's.

ROSTER-1. A job is with one worker, or lost, or not here at all.
ROSTER-2. A lost job's number of deliveries is kept until the job has ended.
ROSTER-3. A worker is lost by its own silence: while this process stood still, it could not hear anybody.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from holdfast.designs.services.clock import Stopwatch
from holdfast.rpc import limits

TIMEOUT_SECONDS: Final = limits.WORKER_TIMEOUT_MS / 1000
PAUSE_SECONDS: Final = TIMEOUT_SECONDS / 2
"""A look at the workers that comes so late shows that this process was stopped, or its machine."""
ON_ITS_WAY_SECONDS: Final = (limits.FETCH_WORK_DEADLINE_MS + limits.WORKER_HEARTBEAT_DEADLINE_MS) / 1000
"""How old the news may be: an answer travels for as long as its call lasts, and so does a heartbeat."""


@dataclass(slots=True, kw_only=True)
class Seen:
    seen_at: float
    jobs: dict[str, float] = field(default_factory=dict)
    """Job → when it was handed out."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A RUNNING job that nobody runs."""

    job_id: str
    deliveries: int
    """How often it was handed out."""

    @property
    def is_exhausted(self) -> bool:
        return self.deliveries > limits.MAX_REDELIVERIES


class Roster:
    def __init__(self, *, stopwatch: Stopwatch = monotonic) -> None:
        self._stopwatch = stopwatch
        self._workers: dict[str, Seen] = {}
        self._holders: dict[str, str] = {}
        self._deliveries: dict[str, int] = {}
        self._lost: OrderedDict[str, None] = OrderedDict()

    def now(self) -> float:
        return self._stopwatch()

    def forgive_pause(self, *, since: float) -> None:
        """If we have stood still since then, we have heard nobody: their silence is ours, and counts from now on."""
        now = self._stopwatch()
        if now - since > PAUSE_SECONDS:
            for worker in self._workers.values():
                worker.seen_at = now

    def is_alive(self, worker_id: str) -> bool:
        worker = self._workers.get(worker_id)
        return worker is not None and self._stopwatch() - worker.seen_at < TIMEOUT_SECONDS

    def knows(self, job_id: str) -> bool:
        """It is somebody's, or lost: in either case it is looked after."""
        return job_id in self._holders or job_id in self._lost

    def heartbeat(self, worker_id: str, *, holding: Sequence[str] | None) -> None:
        """The worker lives. The jobs that it should have and does not are lost now."""
        now = self._stopwatch()
        worker = self._workers.get(worker_id)
        if worker is None:
            worker = self._workers[worker_id] = Seen(seen_at=now)
        worker.seen_at = now
        if holding is None:
            return
        self._adopt(worker_id, holding)
        missing = [
            job_id
            for job_id, given_at in worker.jobs.items()
            if job_id not in holding and now - given_at > ON_ITS_WAY_SECONDS
        ]
        self._lose(missing)

    def expire(self) -> dict[str, list[str]]:
        """Forget the workers that are silent for too long. Answers with them and the jobs that are lost by it."""
        silent = [worker_id for worker_id in self._workers if not self.is_alive(worker_id)]
        jobs = {worker_id: list(self._workers[worker_id].jobs) for worker_id in silent}
        for worker_id in silent:
            self._lose(jobs[worker_id])
            del self._workers[worker_id]
        return jobs

    def hand_out(self, job_id: str, worker_id: str) -> int:
        """How often it was handed out by now: counted here, whether or not the worker lives to say so."""
        deliveries = self._deliveries[job_id] = self._deliveries.get(job_id, 0) + 1
        self._give(job_id, worker_id)
        return deliveries

    def add_lost(self, job_id: str) -> None:
        """A RUNNING job that was not handed out after all."""
        if job_id not in self._holders:
            self._lost[job_id] = None

    def take_lost(self, *, is_exhausted: bool = False) -> Lost | None:
        """One that may be handed out again, or that may not; the caller ends it, hands it out, or adds it again."""
        for job_id in self._lost:
            lost = Lost(job_id, self._deliveries.get(job_id, 0))
            if lost.is_exhausted == is_exhausted:
                del self._lost[job_id]
                return lost
        return None

    def end(self, job_id: str) -> None:
        """It has ended: nothing is known of it any more."""
        self._release(job_id)
        self._lost.pop(job_id, None)
        self._deliveries.pop(job_id, None)

    def _adopt(self, worker_id: str, holding: Iterable[str]) -> None:
        for job_id in holding:
            if job_id not in self._holders:
                self._lost.pop(job_id, None)
                self._deliveries.setdefault(job_id, 1)
                self._give(job_id, worker_id)

    def _give(self, job_id: str, worker_id: str) -> None:
        self._release(job_id)
        self._lost.pop(job_id, None)
        self._holders[job_id] = worker_id
        if (worker := self._workers.get(worker_id)) is not None:
            worker.jobs[job_id] = self._stopwatch()
        else:
            # It was lost while its job was being prepared.
            self._lose([job_id])

    def _lose(self, job_ids: Iterable[str]) -> None:
        for job_id in list(job_ids):
            self._release(job_id)
            self._lost[job_id] = None

    def _release(self, job_id: str) -> None:
        holder = self._holders.pop(job_id, None)
        if holder is not None and (worker := self._workers.get(holder)) is not None:
            worker.jobs.pop(job_id, None)
