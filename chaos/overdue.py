"""How long jobs stand past the time by which somebody is bound to move them. Pure: it is told what a look saw.

It shares nothing with the code that it watches: what a look contains is read by SQL of its own (``sql/watch_*.sql``).

OVERDUE-1. The clock that counts is the watcher's. A job's time runs from the first look that finds it in need of being
    moved, so that neither a jump of the store's clock nor a late commit counts against it.
OVERDUE-2. Who must move what, by when (the bounds that ``core/README.md`` states, scaled), to which MACHINE_SECONDS are
    added:

    | the job | is moved by | within |
    | --- | --- | --- |
    | PENDING, and all it waits for has ended | settle or tick, by its mark | a sweep |
    | DELAYED or RETRYING, due, and seen before it was | tick | a moment |
    | DELAYED or RETRYING, first seen when it was due long since: committed late | tick | a sweep |
    | SCHEDULED, overtaken: more were claimed since than have left the line in front of it | a claim | a moment |
    | SCHEDULED, nobody in front of it moves, and a worker that serves it has room | a claim | a poll and a moment |
    | RUNNING, its lease over, or its worker silent for the worker timeout | tick | a rest between ticks and a moment |
    | RUNNING, its worker lost or gone from the table | tick | a sweep |

OVERDUE-3. What excuses is stated in ``excuses``. Where nobody is left who could tick or claim, nobody is bound.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from chaos import scale
from chaos.excuses import Circumstances
from chaos.history import Overdue

LOOK_SECONDS: Final = 0.25
GAP_SECONDS: Final = 1.5
"""Looks further apart than this: the store did not answer, or the machine stood still."""
JUMP_SECONDS: Final = 1.0
"""Of the store's clock, beside the watcher's."""
MACHINE_SECONDS: Final = 2.0
"""What two cores may take for a dozen processes, beside what was promised."""
MOMENT_SECONDS: Final = 1.0
REST_SECONDS: Final = 3 * scale.TICK_SECONDS
FRESH_SECONDS: Final = 3 * scale.HEARTBEAT_SECONDS
"""A worker that was seen within this time is there."""
SPARE_CLAIMS: Final = 50
"""So many more claimed than have left the line in front: claims are under way beside each other."""
ROOM_PART: Final = 0.5
"""Of its slots, taken: more than that may be all of them before the next look."""
LATE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A job that has not ended."""

    job_id: UUID
    type: str
    queue: str
    state: str
    version: int
    place: int | None = None
    """Of a SCHEDULED job."""
    at: float | None = None
    """When it is due, or its lease ends, by the store's clock."""
    owner: UUID | None = None
    is_met: bool = False
    """All that it waits for has ended, or something has ended badly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A worker's row."""

    id: UUID
    name: str
    seen_at: float
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw."""

    at: float
    """By the watcher's clock."""
    now: float
    """By the store's."""
    jobs: Sequence[Standing] = ()
    workers: Sequence[Seen] = ()
    claims: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Since the last look, by queue and type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What workers of a name do."""

    types: frozenset[str]
    slots: int
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """A SCHEDULED job, since it was first seen at its place."""

    kind: "Kind"
    claims: int = 0
    """Of its kind."""
    gone: int = 0
    """Those that stood in front of it. A store that crashes forgets claims, and they stand there again."""
    is_moving: bool = False
    """Somebody in front of it has gone since the last look."""


@dataclass(slots=True)
class _Debt:
    """Somebody is bound to move a job."""

    why: str
    bound: float
    ends_at: float


Kind = tuple[str, frozenset[str]]
"""A queue, and the types that the same workers serve."""


class Watch:
    def __init__(self, services: Mapping[str, Service]) -> None:
        """``services`` by the names of workers."""
        self._services = services
        self._types = {name: service.types for service in services.values() for name in service.types}
        """With which others it is served, by type."""
        self._last: Look | None = None
        self._began_at = float("nan")
        self._free_from = float("-inf")
        """Before that nobody is late (EXCUSE-1)."""
        self._debts: dict[UUID, _Debt] = {}
        self._queued: dict[tuple[UUID, int], _Waiting] = {}
        self._early: set[tuple[UUID, int]] = set()
        """Jobs that were seen before they were due, with their versions."""
        self._was_locked: set[UUID] = set()
        self._found: dict[UUID, Overdue] = {}
        self.looks = 0

    @property
    def found(self) -> list[Overdue]:
        return list(self._found.values())

    def look(self, look: Look, circumstances: Circumstances) -> None:
        if not self.looks:
            self._began_at = look.at
        self.looks += 1
        self._note_outage(look, circumstances)
        able = self._able(look, circumstances)
        self._move_lines(look)
        room = self._room(look, able)
        owners = {worker.id: worker for worker in look.workers}
        self._was_locked |= circumstances.locked
        debts: dict[UUID, _Debt] = {}
        for job in look.jobs:
            if job.job_id in circumstances.locked or not able:
                continue
            match job.state:
                case "SCHEDULED":
                    owed = self._of_scheduled(job, room)
                case "RUNNING":
                    owed = self._of_running(job, owners, look.now)
                case _:
                    owed = self._of_waiting(job, look.now)
            if owed is not None:
                why, bound = owed
                debts[job.job_id] = self._debt(job, why, bound + MACHINE_SECONDS, look.at)
        self._debts = debts
        self._forget(look)
        self._last = look

    def _note_outage(self, look: Look, circumstances: Circumstances) -> None:
        last = self._last
        is_gap = last is not None and look.at - last.at > GAP_SECONDS
        is_jump = last is not None and abs((look.now - last.now) - (look.at - last.at)) > JUMP_SECONDS
        if is_gap or is_jump:
            self._free_from = look.at + scale.WORKER_TIMEOUT_SECONDS
        self._free_from = max(self._free_from, circumstances.away_until + scale.WORKER_TIMEOUT_SECONDS)

    def _debt(self, job: Standing, why: str, bound: float, at: float) -> _Debt:
        debt = self._debts.get(job.job_id)
        if debt is None or (debt.why != why and at + bound < debt.ends_at):
            debt = _Debt(why, bound, at + bound)
        if at < self._free_from:
            debt.ends_at = self._free_from + debt.bound
        past = at - debt.ends_at
        found = self._found.get(job.job_id)
        if past > 0 and (found is None or past > found.seconds):
            self._found[job.job_id] = Overdue(
                job_id=job.job_id, seconds=past, at_seconds=at - self._began_at, why=f"{job.state}, {debt.why}"
            )
        return debt

    # who could do something

    def _able(self, look: Look, circumstances: Circumstances) -> list[Seen]:
        return [
            worker
            for worker in look.workers
            if not worker.is_lost
            and abs(look.now - worker.seen_at) <= FRESH_SECONDS
            and worker.name in self._services
            and worker.name not in circumstances.impaired
        ]

    def _room(self, look: Look, able: Sequence[Seen]) -> set[Kind]:
        """The kinds for which somebody has slots that are free."""
        taken = Counter(job.owner for job in look.jobs if job.owner is not None)
        in_queue = Counter((job.owner, job.queue) for job in look.jobs if job.owner is not None)
        queues = {job.queue for job in look.jobs if job.state == "SCHEDULED"}
        found: set[Kind] = set()
        for worker in able:
            service = self._services[worker.name]
            if taken[worker.id] > service.slots * ROOM_PART:
                continue
            found |= {
                (queue, service.types)
                for queue in queues
                if in_queue[worker.id, queue] < service.limits.get(queue, service.slots)
            }
        return found

    def _kind(self, queue: str, name: str) -> Kind:
        return queue, self._types.get(name) or frozenset((name,))

    # what is owed

    def _move_lines(self, look: Look) -> None:
        """Note what was claimed since the last look, and who has left the line in front of whom."""
        claims: Counter[Kind] = Counter()
        for (queue, name), count in look.claims.items():
            claims[self._kind(queue, name)] += count
        queued = {(job.job_id, job.place or 0): job for job in look.jobs if job.state == "SCHEDULED"}
        gone: defaultdict[Kind, list[int]] = defaultdict(list)
        for job_id, place in self._queued.keys() - queued.keys():
            gone[self._queued[job_id, place].kind].append(place)
        for places in gone.values():
            places.sort()
        for key, job in queued.items():
            waiting = self._queued.get(key)
            if waiting is None:
                self._queued[key] = _Waiting(self._kind(job.queue, job.type))
                continue
            passed = bisect_left(gone[waiting.kind], job.place or 0)
            waiting.gone += passed
            waiting.claims += claims[waiting.kind]
            waiting.is_moving = passed > 0
        self._queued = {key: self._queued[key] for key in queued}

    def _of_scheduled(self, job: Standing, room: set[Kind]) -> tuple[str, float] | None:
        waiting = self._queued[job.job_id, job.place or 0]
        bound = scale.SWEEP_SECONDS if job.job_id in self._was_locked else MOMENT_SECONDS
        if waiting.claims - waiting.gone > SPARE_CLAIMS:
            return "overtaken by others of its kind", bound
        if waiting.kind in room and not waiting.is_moving:
            return "while a worker has room for it", max(bound, scale.POLL_SECONDS + MOMENT_SECONDS)
        return None

    def _of_running(self, job: Standing, owners: Mapping[UUID, Seen], now: float) -> tuple[str, float] | None:
        prompt = REST_SECONDS + MOMENT_SECONDS
        if job.job_id in self._was_locked:
            prompt = max(prompt, scale.SWEEP_SECONDS)
        worker = owners.get(job.owner) if job.owner is not None else None
        if job.at is not None and job.at <= now:
            return "its lease is over", prompt
        if worker is None or worker.is_lost:
            return "its worker is gone", scale.SWEEP_SECONDS
        # A time in the future is from before the clock was put back.
        if abs(now - worker.seen_at) > scale.WORKER_TIMEOUT_SECONDS:
            return "its worker is silent", prompt
        return None

    def _of_waiting(self, job: Standing, now: float) -> tuple[str, float] | None:
        if job.state == "PENDING":
            return ("what it waits for has ended", scale.SWEEP_SECONDS) if job.is_met else None
        key = (job.job_id, job.version)
        assert job.at is not None, "a job that waits for its time has one"
        if job.at > now:
            self._early.add(key)
            return None
        if (key in self._early or now - job.at <= LATE_SECONDS) and job.job_id not in self._was_locked:
            return "it is due", MOMENT_SECONDS
        return "it was committed when it was due", scale.SWEEP_SECONDS

    def _forget(self, look: Look) -> None:
        """What is not there any more need not be remembered."""
        self._early &= {(job.job_id, job.version) for job in look.jobs}
