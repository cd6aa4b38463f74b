"""Short ways to say what a test needs: jobs with a few fields given, and each verb for one job.

Everything goes through the port's verbs; a factory that cannot do what it says fails the test at once.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from holdfast.core import limits
from holdfast.core.checks import require_valid_submit
from holdfast.core.commands import (
    CancelAnswer,
    Claim,
    Completed,
    Failed,
    Filter,
    HandedBack,
    NewJob,
    Outcome,
    Page,
    ReplayAnswer,
    Settled,
    Settlement,
    Stopped,
    Submit,
    SubmitAnswer,
    Submitted,
    Tick,
    TickReport,
)
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.failures import Category, Failure
from holdfast.core.job import ClaimedJob, Job, Lease, Progress, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.priority import Priority
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.testing.harness import StoreHarness

TEMPORARY: Final = Failure(category=Category.TEMPORARY, message="the service is away", error_type="ServiceError")
PERMANENT: Final = Failure(category=Category.PERMANENT, message="no such customer", error_type="LookupError")
COMPLETED: Final = Completed(b'"done"')
RETRY: Final = Failed(TEMPORARY, retry_in_seconds=60.0)
FAIL: Final = Failed(PERMANENT)
GIVE_UP: Final = Failed(TEMPORARY)
"""A category that this job does not retry."""
HANDED_BACK: Final = HandedBack()
STOPPED: Final = Stopped()

MAX_TICKS: Final = 100
MAX_PAGES: Final = 1000
TICK_INTERVAL_SECONDS: Final = 5.0

# submit


def new_job(**overrides: Any) -> NewJob:
    return NewJob(**{"id": uuid4(), "type": "example", **overrides})


def field_values(now: datetime) -> dict[str, Any]:
    """A value that is not the default for every field of a job but its ID and its dependencies."""
    return {
        "type": "übertragen",
        "queue": "média",
        "payload": Payload.of({"text": "ß☃\U0001f600"}),
        "priority": Priority.LOW,
        "delay_seconds": 60.0,
        "run_at": now + timedelta(seconds=90, microseconds=7),
        "timeouts": Timeouts(execution=12.5, visibility=34.25, lifetime=5678.0),
        "retry": Retry(
            max_attempts=7,
            strategy=Strategy.LINEAR,
            initial_delay=2.5,
            max_delay=60.0,
            multiplier=3.0,
            jitter=Jitter.FULL,
            on=frozenset({Category.TIMEOUT}),
        ),
        "key": "order-7",
        "key_window_seconds": 60.0,
        "tags": {"kunde": "Müller", "region": "eu"},
        "correlation_id": "trace-1",
        "callback_url": "https://example.org/done?a=1",
        "group": "Kunde 7",
    }


def after(*job_ids: UUID, kind: DependencyKind = DependencyKind.AFTER) -> tuple[Dependency, ...]:
    return tuple(Dependency(job_id, kind) for job_id in job_ids)


async def submit_answer(store: Store, *jobs: NewJob, is_keyed_as_one: bool = False) -> SubmitAnswer:
    """The answer to one submit of these jobs, be it a refusal."""
    (answer,) = await submit_answers(store, Submit(jobs=jobs, is_keyed_as_one=is_keyed_as_one))
    return answer


async def submit_answers(store: Store, *submits: Submit) -> list[SubmitAnswer]:
    """The answers to submits that share a call, after the engine's checks."""
    checked: dict[int, Submit] = {}
    answers: dict[int, SubmitAnswer] = {}
    for index, one in enumerate(submits):
        try:
            require_valid_submit(one)
            checked[index] = one
        except InvalidInput as refusal:
            answers[index] = refusal
    told = await store.submit(list(checked.values())) if checked else []
    answers |= dict(zip(checked, told, strict=True))
    return [answers[index] for index in range(len(submits))]


async def submit_jobs(store: Store, *jobs: NewJob, is_keyed_as_one: bool = False) -> tuple[Submitted, ...]:
    answer = await submit_answer(store, *jobs, is_keyed_as_one=is_keyed_as_one)
    if isinstance(answer, HoldfastError):
        raise answer
    return answer


async def submit_one(store: Store, **overrides: Any) -> UUID:
    """Submit a new job and return its ID, or that of the job that has its key."""
    (submitted,) = await submit_jobs(store, new_job(**overrides))
    return submitted.job_id


async def submit_chain(store: Store, length: int, **overrides: Any) -> list[UUID]:
    """In one submit: each job waits for the one before it."""
    jobs: list[NewJob] = []
    for _ in range(length):
        waits_for = after(jobs[-1].id, kind=DependencyKind.CHAIN) if jobs else ()
        jobs.append(new_job(dependencies=waits_for, **overrides))
    return [submitted.job_id for submitted in await submit_jobs(store, *jobs)]


# claim


async def register(
    store: Store, name: str = "worker", *, queues: Sequence[str] = (), types: Sequence[str] = ()
) -> UUID:
    worker = uuid4()
    await work.register(store, worker, name=name, queues=queues, types=types)
    return worker


def new_claim(worker: UUID, **overrides: Any) -> Claim:
    """A claim of up to 100 jobs of the default queue."""
    given = {"owner": worker, "queues": (limits.DEFAULT_QUEUE,), "limit": 100, "nonce": uuid4(), **overrides}
    return Claim(**given)


async def claim(store: Store, worker: UUID, **overrides: Any) -> list[ClaimedJob]:
    return await work.claim(store, new_claim(worker, **overrides))


async def claim_one(store: Store, worker: UUID, **overrides: Any) -> ClaimedJob:
    (job,) = await claim(store, worker, limit=1, **overrides)
    return job


async def claimed_ids(store: Store, worker: UUID, **overrides: Any) -> list[UUID]:
    return [job.id for job in await claim(store, worker, **overrides)]


async def running_job(store: Store, *, worker: UUID | None = None, **overrides: Any) -> ClaimedJob:
    """A new job, claimed by a new worker unless one is given. It gets a queue of its own unless one is given."""
    queue = overrides.pop("queue", None) or f"queue-{uuid4().hex}"
    job_id = await submit_one(store, queue=queue, **overrides)
    owner = worker if worker is not None else await register(store)
    job = await claim_one(store, owner, queues=(queue,))
    assert job.id == job_id
    return job


# settle


async def settle_answer(
    store: Store, job: ClaimedJob | Lease, outcome: Outcome = COMPLETED, *, progress: Progress | None = None
) -> Any:
    """The answer to one settlement, be it a refusal."""
    lease = job.lease if isinstance(job, ClaimedJob) else job
    (answer,) = await work.settle(store, [Settlement(lease=lease, outcome=outcome, progress=progress)])
    return answer


async def settle(store: Store, job: ClaimedJob | Lease, outcome: Outcome = COMPLETED) -> State:
    answer = await settle_answer(store, job, outcome)
    if isinstance(answer, HoldfastError):
        raise answer
    assert isinstance(answer, Settled)
    return answer.state


# cancel, replay


async def cancel_one(store: Store, job_id: UUID) -> CancelAnswer:
    (answer,) = await store.cancel([job_id])
    return answer


async def replay_one(store: Store, job_id: UUID) -> ReplayAnswer:
    (answer,) = await store.replay([job_id])
    return answer


# tick


async def tick(store: Store, **settings: Any) -> list[TickReport]:
    """Tick until a report says that there is no more to do."""
    reports: list[TickReport] = []
    for _ in range(MAX_TICKS):
        reports.append(await store.tick(Tick(**settings)))
        if not reports[-1].has_more:
            return reports
    raise AssertionError(f"tick still has more to do after {MAX_TICKS} calls")


async def pass_time(harness: StoreHarness, seconds: float, *, store: Store | None = None) -> None:
    """Move time on the way it passes in production: with a tick every few seconds, so that there is no gap."""
    end = harness.clock.now() + timedelta(seconds=seconds)
    while (remaining := (end - harness.clock.now()).total_seconds()) > 0:
        harness.clock.advance(min(TICK_INTERVAL_SECONDS, remaining))
        await tick(store or harness.store)


# read


async def hears(store: Store, queues: Sequence[str], *, within_seconds: float) -> bool:
    """Whether the store has news of one of the queues in time."""
    try:
        async with asyncio.timeout(within_seconds):
            await store.news.next(queues)
    except TimeoutError:
        return False
    return True


async def read_one(store: Store, job_id: UUID) -> Job:
    (job,) = await store.read([job_id])
    assert job is not None, f"no job {job_id}"
    return job


async def read_states(store: Store, job_ids: Sequence[UUID]) -> list[State]:
    return [job.state for job in await store.read(job_ids) if job is not None]


async def read_state(store: Store, job_id: UUID) -> State:
    return (await read_one(store, job_id)).state


async def read_pages(store: Store, where: Filter | None = None, *, limit: int = limits.MAX_PAGE_JOBS) -> list[Page]:
    """All pages, from the newest job to the oldest."""
    pages: list[Page] = []
    cursor: int | None = None
    for _ in range(MAX_PAGES):
        pages.append(await store.read_page(where or Filter(), limit=limit, cursor=cursor))
        cursor = pages[-1].next_cursor
        if cursor is None:
            return pages
    raise AssertionError(f"still a cursor after {MAX_PAGES} pages")


async def read_all(store: Store, where: Filter | None = None, *, limit: int = limits.MAX_PAGE_JOBS) -> list[Job]:
    return [job for page in await read_pages(store, where, limit=limit) for job in page.jobs]


async def read_counts(store: Store, queue: str = limits.DEFAULT_QUEUE) -> dict[State, int]:
    """How many jobs of a queue are in each state; states without jobs are left out."""
    for stats in await store.read_queues():
        if stats.name == queue:
            return {state: count for state, count in stats.counts.items() if count}
    return {}


async def job_in_state(store: Store, state: State, **overrides: Any) -> UUID:
    """A new job in that state, reached by real verbs. It gets a queue of its own unless one is given."""
    queue = overrides.pop("queue", None) or f"queue-{uuid4().hex}"
    given = {"queue": queue, **overrides}
    match state:
        case State.PENDING:
            blocker = await submit_one(store, queue=f"blockers-{uuid4().hex}")
            return await submit_one(store, dependencies=after(blocker), **given)
        case State.DELAYED:
            return await submit_one(store, **{"delay_seconds": 3600.0, **given})
        case State.SCHEDULED:
            return await submit_one(store, **given)
        case State.CANCELLED:
            job_id = await submit_one(store, **given)
            await cancel_one(store, job_id)
            return job_id
        case State.RUNNING:
            return (await running_job(store, **given)).id
        case State.RETRYING:
            return await _settled(store, RETRY, **given)
        case State.COMPLETED:
            return await _settled(store, COMPLETED, **given)
        case State.FAILED:
            return await _settled(store, FAIL, **given)
        case State.DEAD_LETTER:
            return await _settled(store, RETRY, **{"retry": Retry(max_attempts=1), **given})


async def _settled(store: Store, outcome: Outcome, **overrides: Any) -> UUID:
    job = await running_job(store, **overrides)
    await settle(store, job, outcome)
    return job.id
