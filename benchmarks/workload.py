"""What every side is given: the same jobs in the same batches, and how many of them.

``FULL`` is what the requirements are judged by; ``QUICK`` is for trying a change out and says little about growth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from holdfast.core.commands import NewJob
from holdfast.core.payload import Payload

JOB_TYPE: Final = "example"
QUEUE: Final = "queue-0"
PAYLOAD: Final = Payload.of({"order": 4711, "text": "x" * 76})
"""About 100 bytes."""
RESULT: Final = b"true"

SUBMIT_BATCH_JOBS: Final = 1000
DRAIN_BATCH_JOBS: Final = 200
CONCURRENT_SUBMITTERS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    name: str
    rounds: int
    """Laps of each side. The sides take turns, so that what else the machine does meets them alike."""
    lap_jobs: int
    """Jobs a lap: short enough for turns to mean something, long enough for a timer's tick not to matter."""
    wal_jobs: int
    small_backlog_jobs: int
    large_backlog_jobs: int
    history_jobs: int
    growth_rounds: int
    queues: int
    queue_rounds: int
    foreign_jobs: int
    pinned_jobs: int
    """Drained while somebody's transaction is open: so many dead rows there are in the end."""
    pinned_rounds: int
    single_submits: int
    single_rounds: int
    pgbench_seconds: int


FULL: Final = Sizes(
    name="full",
    rounds=21,
    lap_jobs=5000,
    wal_jobs=50_000,
    small_backlog_jobs=10_000,
    large_backlog_jobs=1_000_000,
    history_jobs=5_000_000,
    growth_rounds=15,
    queues=1000,
    queue_rounds=11,
    foreign_jobs=300_000,
    pinned_jobs=200_000,
    pinned_rounds=5,
    single_submits=100,
    single_rounds=75,
    pgbench_seconds=3,
)
QUICK: Final = Sizes(
    name="quick",
    rounds=5,
    lap_jobs=2000,
    wal_jobs=10_000,
    small_backlog_jobs=4000,
    large_backlog_jobs=100_000,
    history_jobs=200_000,
    growth_rounds=5,
    queues=1000,
    queue_rounds=3,
    foreign_jobs=30_000,
    pinned_jobs=40_000,
    pinned_rounds=1,
    single_submits=100,
    single_rounds=8,
    pgbench_seconds=1,
)


def new_jobs(count: int, *, queue: str = QUEUE) -> tuple[NewJob, ...]:
    return tuple(NewJob(id=uuid4(), type=JOB_TYPE, queue=queue, payload=PAYLOAD) for _ in range(count))


def batches(count: int) -> list[tuple[NewJob, ...]]:
    """Made before the clock starts: that a caller makes its jobs is not the store's time."""
    return [new_jobs(SUBMIT_BATCH_JOBS) for _ in range(-(-count // SUBMIT_BATCH_JOBS))]


def queue_names(count: int) -> Sequence[str]:
    """As ``sql/fill_ready.sql`` names them."""
    return tuple(f"queue-{number}" for number in range(count))
