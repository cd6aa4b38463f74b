"""The commands of a stream: small, total, and abstract.

A command names jobs, leases and workers by position, so that it means something in any world and a stream stays
runnable when commands before it are left out. ``prepare`` makes it concrete, once; ``run`` does it on one side.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import (
    Claim,
    ClaimIds,
    Completed,
    Failed,
    Filter,
    Fire,
    HandedBack,
    Heartbeat,
    NewJob,
    Outcome,
    Report,
    Settlement,
    Stopped,
    Submit,
    Tick,
    lease_tokens,
)
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category, Failure
from holdfast.core.job import ClaimedJob, Lease, Progress, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Jitter, Retry
from holdfast.core.states import LIVE, REPLAYABLE, State
from tests.differential.sides import CRONS, QUEUES, TYPES, UNKNOWN_JOB, WORKERS, Book, Side
from tests.differential.snapshots import pages

PAYLOADS: Final = (Payload.of({"n": 1}), Payload.of_bytes(b"\x00\xff"))
UNKNOWN_LEASE: Final = Lease(
    job_id=UNKNOWN_JOB,
    seq=987_654_321,
    token=UUID(int=0xDEAD << 32),
    version=1,
    owner=WORKERS[0],
    expires_at=datetime.fromisoformat("2030-01-01T00:00:00+00:00"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A command made concrete: the verb's name, its input for the record, and how to ask one side."""

    verb: str
    given: Any
    run: Callable[[Side], Awaitable[Any]]


# submit

Flaw = Callable[[NewJob, datetime], NewJob]
FLAWS: Final[dict[str, Flaw]] = {
    "type": lambda job, _: replace(job, type=""),
    "queue": lambda job, _: replace(job, queue="q" * 256),
    "payload": lambda job, _: replace(job, payload=Payload.of_bytes(bytes(limits.DEFAULT_PAYLOAD_BYTES + 1))),
    "priority": lambda job, _: replace(job, priority=9),  # type: ignore[arg-type]
    "delay_seconds": lambda job, _: replace(job, delay_seconds=-1.0, run_at=None),
    "delay_seconds behind lifetime": lambda job, _: replace(job, delay_seconds=job.timeouts.lifetime + 1, run_at=None),
    "run_at": lambda job, now: replace(job, run_at=now.replace(tzinfo=None), delay_seconds=0.0),
    "run_at behind lifetime": lambda job, now: replace(
        job, run_at=now + timedelta(seconds=job.timeouts.lifetime + 1), delay_seconds=0.0
    ),
    "timeouts.visibility": lambda job, _: replace(job, timeouts=replace(job.timeouts, visibility=0.0)),
    "retry.max_attempts": lambda job, _: replace(job, retry=Retry(max_attempts=0)),
    "key": lambda job, _: replace(job, key="NUL\0"),
    "dependencies on itself": lambda job, _: replace(job, dependencies=(Dependency(job.id),)),
    "dependencies twice": lambda job, _: replace(job, dependencies=(Dependency(UNKNOWN_JOB),) * 2),
    "dependencies unknown": lambda job, _: replace(job, dependencies=(Dependency(UNKNOWN_JOB),)),
    "dependencies too many": lambda job, _: replace(
        job, dependencies=tuple(Dependency(UUID(int=0xDEAD << 16 | n)) for n in range(limits.MAX_DEPENDENCIES + 1))
    ),
    "tags": lambda job, _: replace(job, tags={"lone surrogate": "\ud800"}),
    "correlation_id": lambda job, _: replace(job, correlation_id=""),
    "callback_url": lambda job, _: replace(job, callback_url="ftp://example.org"),
    "group": lambda job, _: replace(job, group=""),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """A dependency: on the job at ``sibling`` in the batch or the one before, else on one that exists, by state."""

    kind: DependencyKind = DependencyKind.AFTER
    sibling: int | None = None
    is_in_batch_before: bool = False
    pick: int = 0
    states: frozenset[State] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job to be; everything at its default makes a plain one."""

    type: int = 0
    queue: int = 0
    payload: int = 0
    priority: Priority = Priority.NORMAL
    delay_seconds: float = 0.0
    run_in_seconds: float | None = None
    visibility: float = limits.DEFAULT_VISIBILITY_SECONDS
    lifetime: float = limits.DEFAULT_LIFETIME_SECONDS
    max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS
    key: int | None = None
    key_window: float = limits.DEFAULT_KEY_WINDOW_SECONDS
    wishes: tuple[Wish, ...] = ()
    is_labelled: bool = False
    flaw: str | None = None


def make_jobs(
    drafts: tuple[Draft, ...], book: Book, *, key_suffix: bool = False, batch_before: Sequence[NewJob] = ()
) -> tuple[NewJob, ...]:
    now = book.clock.now()
    ids = [book.new_id() for _ in drafts]
    jobs = []
    for n, draft in enumerate(drafts):
        key = None if draft.key is None else f"key-{draft.key}" + (f"#{n}" if key_suffix else "")
        job = NewJob(
            id=ids[n],
            type=TYPES[draft.type],
            queue=QUEUES[draft.queue],
            payload=PAYLOADS[draft.payload],
            priority=draft.priority,
            delay_seconds=draft.delay_seconds,
            run_at=None if draft.run_in_seconds is None else now + timedelta(seconds=draft.run_in_seconds),
            timeouts=Timeouts(visibility=draft.visibility, lifetime=draft.lifetime),
            retry=Retry(max_attempts=draft.max_attempts),
            key=key,
            key_window_seconds=draft.key_window,
            dependencies=_dependencies(draft.wishes, ids, n, book, [job.id for job in batch_before]),
        )
        if draft.is_labelled:
            job = _labelled(job)
        jobs.append(FLAWS[draft.flaw](job, now) if draft.flaw else job)
    return tuple(jobs)


def _labelled(job: NewJob) -> NewJob:
    return replace(
        job,
        tags={"colour": "blue", "größe": "10 µm"},
        correlation_id="order-7",
        callback_url="https://example.org/done",
        group="Kunde 7",
        timeouts=replace(job.timeouts, execution=90.0),
        retry=replace(job.retry, jitter=Jitter.FULL, on=frozenset({Category.SYSTEM})),
    )


def _dependencies(
    wishes: tuple[Wish, ...], ids: list[UUID], own: int, book: Book, before: list[UUID]
) -> tuple[Dependency, ...]:
    """One on a sibling may make a cycle; none names the job itself or one job twice, which are flaws."""
    found: dict[UUID, DependencyKind] = {}
    for wish in wishes:
        siblings = before if wish.is_in_batch_before else ids
        if wish.sibling is not None and siblings:
            job_id = siblings[wish.sibling % len(siblings)]
        else:
            job_id = book.job_id(wish.pick, wish.states)
        if job_id != ids[own] and job_id != UNKNOWN_JOB:
            found[job_id] = wish.kind
    return tuple(Dependency(job_id, kind) for job_id, kind in found.items())


@dataclass(frozen=True, slots=True)
class Submitting:
    """Submits that share one call."""

    batches: tuple[tuple[Draft, ...], ...]
    is_keyed_as_one: bool = False
    whole_flaw: str | None = None

    def prepare(self, book: Book) -> Call:
        submits: list[Submit] = []
        as_one = self.is_keyed_as_one
        for drafts in self.batches:
            before = submits[-1].jobs if submits else ()
            jobs = make_jobs(drafts, book, key_suffix=as_one, batch_before=before)
            submits.append(Submit(jobs=jobs, is_keyed_as_one=as_one))
        # Submits of one call are independent, so their order is the store's own. Plain ones overtake the others in
        # PostgreSQL; given in that order, all stores accept them in the same one.
        submits.sort(key=lambda submit: not all(_is_plain(job) for job in submit.jobs))
        if self.whole_flaw:
            submits[-1] = WHOLE_FLAWS[self.whole_flaw](submits[-1], book)
        book.submits += submits
        return submit_call(submits)


def _is_plain(job: NewJob) -> bool:
    return job.key is None and job.run_at is None and not job.dependencies and not job.tags


def submit_call(submits: list[Submit]) -> Call:
    return Call("submit", submits, lambda side: side.store.submit(submits))


def _too_deep(_: Submit, book: Book) -> Submit:
    ids = [book.new_id() for _ in range(limits.MAX_DEPENDENCY_DEPTH + 2)]
    first = NewJob(id=ids[0], type=TYPES[0])
    others = [
        NewJob(id=job_id, type=TYPES[0], dependencies=(Dependency(before, DependencyKind.CHAIN),))
        for before, job_id in pairwise(ids)
    ]
    return Submit(jobs=(first, *others))


def _cyclic(submit: Submit, book: Book) -> Submit:
    one, two = book.new_id(), book.new_id()
    cycle = tuple(
        NewJob(id=job_id, type=TYPES[0], dependencies=(Dependency(other),))
        for job_id, other in ((one, two), (two, one))
    )
    return Submit(jobs=(*submit.jobs, *cycle))


def _one_key_twice(submit: Submit, book: Book) -> Submit:
    twins = tuple(NewJob(id=book.new_id(), type=TYPES[0], key="twin") for _ in range(2))
    return Submit(jobs=(*submit.jobs, *twins))


WHOLE_FLAWS: Final[dict[str, Callable[[Submit, Book], Submit]]] = {
    "jobs none": lambda submit, _: replace(submit, jobs=()),
    "id twice": lambda submit, _: replace(submit, jobs=(submit.jobs[0], submit.jobs[0])),
    "key twice": _one_key_twice,
    "dependencies cyclic": _cyclic,
    "dependencies too deep": _too_deep,
}


@dataclass(frozen=True, slots=True)
class SubmittingAgain:
    """A submit whose answer was lost, as it was; or the same keys in a new submit."""

    pick: int = 0
    is_new: bool = False
    other_payload: bool = False
    leave_out: int = 0
    times: int = 1

    def prepare(self, book: Book) -> Call:
        if not book.submits:
            return submit_call([])
        submit = book.submits[-1 - self.pick % len(book.submits)]
        if self.is_new:
            submit = self._renewed(submit, book)
            book.submits.append(submit)
        return submit_call([submit] * self.times)

    def _renewed(self, submit: Submit, book: Book) -> Submit:
        jobs = submit.jobs[self.leave_out :] or submit.jobs
        ids = {job.id: book.new_id() for job in jobs}
        return replace(submit, jobs=tuple(self._renew(job, ids) for job in jobs))

    def _renew(self, job: NewJob, ids: dict[UUID, UUID]) -> NewJob:
        waits_for = tuple(Dependency(ids.get(d.job_id, d.job_id), d.kind) for d in job.dependencies)
        renewed = replace(job, id=ids[job.id], dependencies=waits_for)
        return replace(renewed, payload=Payload.of([3])) if self.other_payload else renewed


# claim


@dataclass(frozen=True, slots=True)
class Claiming:
    worker: int = 0
    limit: int = 1
    queues: tuple[int, ...] = (0, 1)
    types: tuple[int, ...] | None = None

    def prepare(self, book: Book) -> Call:
        book.made += 1
        claim = Claim(
            owner=WORKERS[self.worker],
            queues=tuple(QUEUES[n] for n in self.queues),
            limit=self.limit,
            nonce=UUID(int=0xC << 96 | book.made << 16),
            types=None if self.types is None else tuple(TYPES[n] for n in self.types),
        )
        book.claims.append(claim)
        return claim_call(claim)


@dataclass(frozen=True, slots=True)
class ClaimingIds:
    """``picks``: jobs by state, as Wish has them; each once. Without any: an unknown one."""

    worker: int = 0
    picks: tuple[tuple[int, frozenset[State] | None], ...] = ()
    queues: tuple[int, ...] = (0, 1)
    types: tuple[int, ...] | None = None
    is_repeated: bool = False
    flaw: str | None = None

    def prepare(self, book: Book) -> Call:
        book.made += 1
        ids = list(dict.fromkeys(book.job_id(pick, states) for pick, states in self.picks)) or [UNKNOWN_JOB]
        if self.flaw is not None:
            ids = {"none": [], "twice": ids * 2, "too many": [UUID(int=n) for n in range(limits.MAX_CLAIM_JOBS + 1)]}[
                self.flaw
            ]
        claim = ClaimIds(
            owner=WORKERS[self.worker],
            ids=tuple(ids),
            queues=tuple(QUEUES[n] for n in self.queues),
            nonce=UUID(int=0xD << 96 | book.made << 16),
            types=None if self.types is None else tuple(TYPES[n] for n in self.types),
        )

        async def run(side: Side) -> Any:
            answers = await side.store.claim_ids(claim)
            side.leases += [answer.lease for answer in answers if isinstance(answer, ClaimedJob)]
            if not self.is_repeated:
                return answers
            return [answers, await side.store.claim_ids(replace(claim, is_repeat=True))]

        return Call("claim_ids", (claim, self.is_repeated), run)


def claim_call(claim: Claim) -> Call:
    async def run(side: Side) -> Any:
        claimed = await side.store.claim(claim)
        side.leases += [job.lease for job in claimed]
        return claimed

    return Call("claim", claim, run)


@dataclass(frozen=True, slots=True)
class ClaimingAgain:
    """A repeat of a claim that got nothing, or of one that still holds some of its leases.

    One that has lost them all would give its tokens out a second time, which no client may ask for.
    """

    pick: int = 0

    def prepare(self, book: Book) -> Call:
        valid = {job.token for job in book.jobs(frozenset({State.RUNNING}))}
        given = {token for _, token in book.tokens}
        claims = [
            claim
            for claim in book.claims
            if 1 <= claim.limit <= limits.MAX_CLAIM_JOBS
            and (not (own := given & set(lease_tokens(claim.nonce, claim.limit))) or own & valid)
        ]
        if not claims:
            return Claiming().prepare(book)
        claim = replace(claims[-1 - self.pick % len(claims)], is_repeat=True)
        return claim_call(claim)


# settle

TEMPORARY: Final = Failure(category=Category.TEMPORARY, message="away\0", error_type="OSError", trace="…")
OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": Completed(b'{"ok":true}'),
    "completed without result": Completed(),
    "temporary": Failed(TEMPORARY, 0.0),
    "temporary, later": Failed(TEMPORARY, 5.0),
    "temporary, not retried": Failed(TEMPORARY),
    "timeout": Failed(replace(TEMPORARY, category=Category.TIMEOUT), 1.0),
    "system": Failed(replace(TEMPORARY, category=Category.SYSTEM, code="child_died"), 1.0),
    "permanent": Failed(replace(TEMPORARY, category=Category.PERMANENT), 1.0),
    "cancelled": Failed(replace(TEMPORARY, category=Category.CANCELLED)),
    "stopped": Stopped(),
    "handed back": HandedBack(),
    "handed back, later": HandedBack(4.0),
}


@dataclass(frozen=True, slots=True)
class Ending:
    """``spawn`` makes it an ack with children."""

    pick: int = 0
    is_valid: bool = True
    outcome: str = "completed"
    spawn: tuple[Draft, ...] = ()
    spawn_of_spawner: DependencyKind | None = None
    percent: float | None = None
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Settling:
    endings: tuple[Ending, ...] = (Ending(),)
    times: int = 1

    def prepare(self, book: Book) -> Call:
        planned = _in_one_order([_plan(ending, book) for ending in self.endings], book)

        def settlements(side: Side) -> list[Settlement]:
            return [
                Settlement(lease=lease_of(side, index), outcome=outcome, progress=progress)
                for index, outcome, progress in planned
            ] * self.times

        given = [(None if n is None else book.tokens[n][0], *rest) for n, *rest in planned]
        return Call("settle", given, lambda side: side.store.settle(settlements(side)))


Planned = tuple[int | None, Outcome, Progress | None]


def _in_one_order(planned: list[Planned], book: Book) -> list[Planned]:
    """Settlements of one call are independent, so their order is the store's own; plain successes overtake the others.

    Where that could be seen (one lease twice, or jobs that others wait for), only the first kind is kept.
    """
    # A repeated claim lists a lease a second time.
    first = {None if one[0] is None else book.tokens[one[0]]: one for one in reversed(planned)}
    planned = [one for one in planned if one in first.values()]
    needed = {parent for job in book.jobs(None) for parent in job.waits}
    if any(index is not None and book.tokens[index][0] in needed for index, _, _ in planned):
        planned = [one for one in planned if _is_plain_success(one) is _is_plain_success(planned[0])]
    return planned


def _is_plain_success(planned: Planned) -> bool:
    _, outcome, progress = planned
    return isinstance(outcome, Completed) and not outcome.spawn and progress is None


def lease_of(side: Side, index: int | None) -> Lease:
    return UNKNOWN_LEASE if index is None else side.leases[index]


def _plan(ending: Ending, book: Book) -> Planned:
    index = None if ending.is_unknown else book.lease_index(ending.pick, is_valid=ending.is_valid)
    outcome = OUTCOMES[ending.outcome]
    if ending.spawn and index is not None:
        children = make_jobs(ending.spawn, book)
        if ending.spawn_of_spawner is not None:
            parent = Dependency(book.tokens[index][0], ending.spawn_of_spawner)
            children = (replace(children[0], dependencies=(parent,)), *children[1:])
        outcome = Completed(b"spawned", children)
    return index, outcome, None if ending.percent is None else Progress(percent=ending.percent, message="schöne")


# extend, report


@dataclass(frozen=True, slots=True)
class Extending:
    picks: tuple[tuple[int, bool], ...] = ((0, True),)
    with_unknown: bool = False

    def prepare(self, book: Book) -> Call:
        indexes = [book.lease_index(pick, is_valid=is_valid) for pick, is_valid in self.picks]
        indexes += [None] if self.with_unknown else []
        return Call("extend", indexes, lambda side: side.store.extend([lease_of(side, n) for n in indexes]))


@dataclass(frozen=True, slots=True)
class Reporting:
    picks: tuple[tuple[int, bool], ...] = ((0, True),)
    percent: float | None = 50.0
    checkpoint: bytes | None = None

    def prepare(self, book: Book) -> Call:
        indexes = [book.lease_index(pick, is_valid=is_valid) for pick, is_valid in self.picks]
        progress = None if self.percent is None else Progress(percent=self.percent)

        def reports(side: Side) -> list[Report]:
            return [Report(lease=lease_of(side, n), progress=progress, checkpoint=self.checkpoint) for n in indexes]

        return Call("report", indexes, lambda side: side.store.report(reports(side)))


# cancel, replay, list


@dataclass(frozen=True, slots=True)
class Choice:
    pick: int = 0
    states: frozenset[State] | None = None


@dataclass(frozen=True, slots=True)
class Cancelling:
    choices: tuple[Choice, ...] = (Choice(),)
    with_unknown: bool = False

    def prepare(self, book: Book) -> Call:
        ids = [book.job_id(choice.pick, choice.states) for choice in self.choices]
        ids += [UNKNOWN_JOB] if self.with_unknown else []
        return Call("cancel", ids, lambda side: side.store.cancel(ids))


@dataclass(frozen=True, slots=True)
class Replaying:
    choices: tuple[Choice, ...] = (Choice(states=frozenset(REPLAYABLE)),)
    with_unknown: bool = False

    def prepare(self, book: Book) -> Call:
        ids = [book.job_id(choice.pick, choice.states) for choice in self.choices]
        ids += [UNKNOWN_JOB] if self.with_unknown else []
        return Call("replay", ids, lambda side: side.store.replay(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A filter; times count back from now."""

    states: frozenset[State] | None = None
    queue: int | None = None
    type: int | None = None
    is_labelled: bool = False
    from_seconds_ago: float | None = None
    until_seconds_ago: float | None = None

    def filter(self, now: datetime) -> Filter:
        return Filter(
            states=self.states,
            queue=None if self.queue is None else QUEUES[self.queue],
            type=None if self.type is None else TYPES[self.type],
            tag=("größe", "10 µm") if self.is_labelled else None,
            group="Kunde 7" if self.is_labelled else None,
            created_from=_ago(now, self.from_seconds_ago),
            created_until=_ago(now, self.until_seconds_ago),
        )


def _ago(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class ReplayingWhere:
    wanted: Wanted = field(default_factory=Wanted)
    limit: int = 2

    def prepare(self, book: Book) -> Call:
        where = self.wanted.filter(book.clock.now())

        async def run(side: Side) -> list[Any]:
            return [
                answer
                async for page in pages(lambda c: side.store.replay_where(where, limit=self.limit, cursor=c))
                for answer in page.answers
            ]

        return Call("replay_where", (where, self.limit), run)


@dataclass(frozen=True, slots=True)
class Listing:
    wanted: Wanted = field(default_factory=Wanted)
    limit: int = 2

    def prepare(self, book: Book) -> Call:
        where = self.wanted.filter(book.clock.now())

        async def run(side: Side) -> list[Any]:
            return [
                job
                async for page in pages(lambda c: side.store.read_page(where, limit=self.limit, cursor=c))
                for job in page.jobs
            ]

        return Call("read_page", (where, self.limit), run)


# tick, time


@dataclass(frozen=True, slots=True)
class Ticking:
    tick: Tick = field(default_factory=Tick)

    def prepare(self, book: Book) -> Call:
        timeout = next(t for t in (self.tick.worker_timeout_seconds, 60.0, 3600.0) if not _is_gap_disputed(book, t))
        tick = replace(self.tick, batch=_batch(book, self.tick.batch, timeout), worker_timeout_seconds=timeout)
        _note_tick(book, timeout)
        return Call("tick", tick, lambda side: side.store.tick(tick))


def _batch(book: Book, batch: int, timeout: float) -> int:
    """Room for all of a lost worker and all over their lifetime, and no cut between equals.

    Who goes first there is the store's own affair.
    """
    live, now, workers = book.jobs(frozenset(LIVE)), book.clock.now(), book.model.world.workers.values()
    silent = {worker.id for worker in workers if worker.is_lost or (now - worker.seen_at).total_seconds() > timeout}
    over = sum(job.lifetime_ends_at <= now for job in live)
    batch = max(batch, over, sum(job.owner in silent for job in live))
    expired = sorted(job.expires_at for job in live if job.expires_at is not None)
    due = sorted(job.due_at for job in live if job.due_at is not None)
    while any(times[batch - 1 : batch] == times[batch : batch + 1] != [] for times in (expired, due)):
        batch += 1
    return batch


def _is_gap_disputed(book: Book, timeout: float) -> bool:
    """A store need not note every tick (SQLite: one in a sixteenth of the timeout), so a gap may look longer to it.

    Nor a gap before anybody was silent (PostgreSQL): to a tick with a shorter timeout it may be over sooner.
    """
    now, real, noted = book.clock.now(), book.model.world.last_tick_at, book.noted_tick_at
    if real is None or noted is None:
        return False
    counts_from = book.model.world.silence_counts_from
    if counts_from is not None and now < counts_from and timeout < book.gap_timeout_seconds:
        return True
    longest = timedelta(seconds=timeout / 2)
    return (now - real > longest) is not (now - noted > longest)


def _note_tick(book: Book, timeout: float) -> None:
    now, real, noted = book.clock.now(), book.model.world.last_tick_at, book.noted_tick_at
    if real is None or now - real > timedelta(seconds=timeout / 2):
        book.gap_timeout_seconds = timeout
    if noted is None or now - noted > timedelta(seconds=timeout / 16):
        book.noted_tick_at = now


@dataclass(frozen=True, slots=True)
class Advancing:
    seconds: float = 1.0

    def prepare(self, book: Book) -> Call:
        book.clock.advance(self.seconds)

        async def nothing(_: Side) -> None: ...

        return Call("advance", self.seconds, nothing)


# cron


@dataclass(frozen=True, slots=True)
class Firing:
    """The crons at ``names``, for a slot so long ago, each with a job or, where there is no draft, as an anchor."""

    names: tuple[int, ...] = (0,)
    seconds_ago: float = 0.0
    drafts: tuple[Draft | None, ...] = (Draft(),)
    times: int = 1

    def prepare(self, book: Book) -> Call:
        slot = book.clock.now() - timedelta(seconds=self.seconds_ago)
        fires = [
            Fire(name=CRONS[name], slot=slot, job=make_jobs((draft,), book)[0] if draft else None)
            for name, draft in zip(self.names, self.drafts, strict=True)
        ]

        async def run(side: Side) -> list[Any]:
            return [await side.store.fire(fires) for _ in range(self.times)]

        return Call("fire", fires, run)


# queues, workers


@dataclass(frozen=True, slots=True)
class Pausing:
    queue: int = 0
    is_resume: bool = False

    def prepare(self, book: Book) -> Call:
        verb, name = "resume" if self.is_resume else "pause", QUEUES[self.queue]
        return Call(verb, name, lambda side: getattr(side.store, verb)(name))


@dataclass(frozen=True, slots=True)
class Registering:
    worker: int = 0

    def prepare(self, book: Book) -> Call:
        worker, name = WORKERS[self.worker], f"host-{self.worker}"
        serves = {"queues": QUEUES[: self.worker], "types": TYPES[: self.worker]}
        return Call("register", worker, lambda side: side.store.register(worker, name=name, **serves))


@dataclass(frozen=True, slots=True)
class Leaving:
    worker: int = 0

    def prepare(self, book: Book) -> Call:
        worker = WORKERS[self.worker]
        return Call("leave", worker, lambda side: side.store.leave(worker))


@dataclass(frozen=True, slots=True)
class Beating:
    """A heartbeat that knows its valid leases but the first ``forgotten``, and perhaps some that are gone."""

    worker: int = 0
    forgotten: int = 0
    stale: tuple[int, ...] = ()
    is_claiming: bool = False
    """The newest claim of this worker counts as in flight."""

    def prepare(self, book: Book) -> Call:
        worker = WORKERS[self.worker]
        running = {(job.id, job.token) for job in book.model.world.leases_of(worker)}
        own = [n for n, pair in enumerate(book.tokens) if pair in running]
        indexes = list({book.tokens[n]: n for n in own}.values())[self.forgotten :]
        if book.tokens:
            indexes += [index for pick in self.stale if (index := book.lease_index(pick, is_valid=False)) is not None]
        claims = [claim for claim in book.claims if claim.owner == worker]
        claiming = frozenset(lease_tokens(claims[-1].nonce, claims[-1].limit) if self.is_claiming and claims else ())

        def beat(side: Side) -> Any:
            held = tuple(side.leases[n] for n in dict.fromkeys(indexes))
            return side.store.heartbeat(Heartbeat(worker=worker, held=held, claiming=claiming))

        return Call("heartbeat", (worker, indexes, claiming), beat)


Command = (
    Firing
    | Submitting
    | SubmittingAgain
    | Claiming
    | ClaimingAgain
    | ClaimingIds
    | Settling
    | Extending
    | Reporting
    | Cancelling
    | Replaying
    | ReplayingWhere
    | Listing
    | Ticking
    | Advancing
    | Pausing
    | Registering
    | Leaving
    | Beating
)
