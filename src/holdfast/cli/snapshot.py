"""What the live views show: how things stand now, and how fast they move.

Throughput is the difference of completed counts between two reads; retention, which lowers them, never makes it
negative.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.cli.workers import is_alive
from holdfast.core.commands import Filter, QueueStats, WorkerInfo
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.engine.documents import job_data, queue_data, time_text, worker_data
from holdfast.engine.engine import Engine

FAILURES: Final = Filter(states=frozenset({State.FAILED, State.DEAD_LETTER, State.RETRYING}))
SHOWN_FAILURES: Final = 10
HISTORY_LOOKS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    now: datetime
    queues: tuple[QueueStats, ...]
    workers: tuple[WorkerInfo, ...]
    failures: tuple[Job, ...]
    """The newest jobs that failed, for good or for now."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Jobs completed a second, by queue."""
    history: tuple[float, ...] = ()
    """The sum of the rates at the last looks, oldest first."""

    def count(self, *states: State) -> int:
        return sum(queue.counts.get(state, 0) for queue in self.queues for state in states)

    @property
    def rate(self) -> float:
        return sum(self.rates.values())

    @property
    def alive(self) -> tuple[WorkerInfo, ...]:
        return tuple(worker for worker in self.workers if is_alive(worker, self.now))

    @property
    def oldest_scheduled_at(self) -> datetime | None:
        times = [queue.oldest_scheduled_at for queue in self.queues if queue.oldest_scheduled_at is not None]
        return min(times, default=None)


class Watch:
    """Looks at a engine again and again, and remembers what it needs to tell the speed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._completed: dict[str, int] = {}
        self._looked_at: float | None = None
        self._history: deque[float] = deque(maxlen=HISTORY_LOOKS)

    async def look(self) -> Snapshot:
        queues = await self._engine.read_queues()
        rates = self._rates(queues)
        workers = await self._engine.read_workers()
        failed = await self._engine.read_page(FAILURES, limit=SHOWN_FAILURES)
        failures = [await self._with_failure(job) for job in failed.jobs]
        return Snapshot(
            now=datetime.now(UTC),
            queues=tuple(queues),
            workers=tuple(workers),
            failures=tuple(sorted(failures, key=lambda job: job.updated_at, reverse=True)),
            rates=rates,
            history=tuple(self._history),
        )

    async def _with_failure(self, job: Job) -> Job:
        """A job that waits for its next attempt has its failure with the last one."""
        if job.failure is not None:
            return job
        attempts = await self._engine.read_attempts(job.id)
        return replace(job, failure=attempts[-1].failure) if attempts else job

    def _rates(self, queues: list[QueueStats]) -> dict[str, float]:
        completed = {queue.name: queue.counts.get(State.COMPLETED, 0) for queue in queues}
        now = time.monotonic()
        before, looked_at = self._completed, self._looked_at
        self._completed, self._looked_at = completed, now
        if looked_at is None or now <= looked_at:
            return {}
        seconds = now - looked_at
        rates = {name: max(0, count - before.get(name, 0)) / seconds for name, count in completed.items()}
        self._history.append(sum(rates.values()))
        return rates


def snapshot_data(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "now": time_text(snapshot.now),
        "throughput_per_second": round(snapshot.rate, 3),
        "oldest_scheduled_at": time_text(snapshot.oldest_scheduled_at),
        "queues": [
            {**queue_data(queue), "throughput_per_second": round(snapshot.rates.get(queue.name, 0.0), 3)}
            for queue in snapshot.queues
        ],
        "workers": [worker_data(worker) for worker in snapshot.workers],
        "failures": [job_data(job) for job in snapshot.failures],
    }
