"""The commands of an overlapping stream, in the manner of ``differential.commands``: small, total, and abstract."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from uuid import UUID

from holdfast.core.commands import Claim, Completed, Heartbeat, NewJob, Report, Settlement, Submit, Tick
from holdfast.core.dependencies import Dependency
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.job import Progress
from holdfast.core.states import REPLAYABLE, State
from holdfast.testing.model.holding import are_held, needs
from tests.differential.commands import OUTCOMES, Draft, make_jobs
from tests.differential.driver import Difference
from tests.differential.overlaps.stage import Asked, Stage, Verdict
from tests.differential.sides import QUEUES, TYPES
from tests.differential.sides import WORKERS as STREAM_WORKERS

WORKERS: Final = (*STREAM_WORKERS, UUID(int=0xF00D << 64 | 0xFF))
DRAINER: Final = len(STREAM_WORKERS)
"""Lives when a stream is over, and did nothing before."""
TICK: Final = Tick()
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Action(Protocol):
    """What one store is asked. ``prepare`` comes before anything happens, so it knows who holds what."""

    @property
    def store(self) -> int: ...

    def prepare(self, stage: Stage) -> Asked: ...


# callers' transactions


@dataclass(frozen=True, slots=True)
class Opening:
    async def play(self, stage: Stage) -> None:
        await stage.begin()


@dataclass(frozen=True, slots=True)
class SubmittingWithin:
    """A submit in the caller's open transaction. It may wait for a job that the same transaction has made."""

    drafts: tuple[Draft, ...]
    pick: int = 0
    store: int = 0
    is_after_own: bool = False

    async def play(self, stage: Stage) -> None:
        if not stage.open:
            await stage.begin()
        one = stage.open[self.pick % len(stage.open)]
        others = [other for other in stage.open if other is not one]
        jobs = make_jobs(self.drafts, stage.book)
        if self.is_after_own and one.hold.jobs:
            jobs = (_waiting_for(jobs[0], list(one.hold.jobs)[-1]), *jobs[1:])
        submit = Submit(jobs=jobs)
        wanted, keys = needs(stage.world, jobs)
        is_held = any(wanted & other.hold.locked_jobs or keys & other.hold.locked_keys for other in others)

        async def ask(store: Any) -> Any:
            return await one.caller.submit(store, [submit])

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable) is not is_held:
                raise Difference(f"somebody else holds what it needs: {is_held}, and it was answered with {answer!r}")
            if is_held:
                return
            try:
                expected: Any = stage.model.submit_within(one.hold, [submit])
            except HoldfastError as refusal:
                expected = refusal
            stage.require_same(expected, answer)

        await stage.play(Asked(ask, follow), self.store)


@dataclass(frozen=True, slots=True)
class Closing:
    """Commit or roll back, perhaps while a store is at work on something."""

    is_commit: bool = True
    pick: int = 0
    during: Action | None = None

    async def play(self, stage: Stage) -> None:
        if not stage.open:
            return
        index = self.pick % len(stage.open)
        if self.during is None:
            await stage.release(index, is_commit=self.is_commit)
            await stage.look(0)
            await stage.compare(0)
            return
        stage.is_releasing = True
        try:
            asked = self.during.prepare(stage)
            await stage.play_while_releasing(asked, self.during.store, closing=index, is_commit=self.is_commit)
        finally:
            stage.is_releasing = False


def _waiting_for(job: NewJob, job_id: UUID) -> NewJob:
    kept = tuple(one for one in job.dependencies if one.job_id != job_id)
    return replace(job, dependencies=(*kept, Dependency(job_id)))


# submit


@dataclass(frozen=True, slots=True)
class Submitting:
    """``is_after_open``: the first job waits for one that somebody's open transaction has made."""

    batches: tuple[tuple[Draft, ...], ...]
    store: int = 0
    is_after_open: bool = False

    def prepare(self, stage: Stage) -> Asked:
        submits = [Submit(jobs=make_jobs(drafts, stage.book)) for drafts in self.batches]
        made = [job_id for one in stage.open for job_id in one.hold.jobs]
        if self.is_after_open and made and not stage.is_releasing:
            first = submits[0].jobs
            submits[0] = Submit(jobs=(_waiting_for(first[0], made[-1]), *first[1:]))
        # Plain ones overtake the others in PostgreSQL; given in that order, they are accepted in it.
        submits.sort(key=lambda submit: any(job.key or job.dependencies or job.run_at for job in submit.jobs))
        verdicts = [stage.verdict(are_held(stage.world, *needs(stage.world, submit.jobs))) for submit in submits]
        # Of one call, what a later one needs may be what an earlier one has just taken.
        return Asked(
            lambda store: store.submit(submits), lambda answer: _follow_submits(stage, submits, answer, verdicts)
        )


async def _follow_submits(stage: Stage, submits: Sequence[Submit], answer: Any, verdicts: Sequence[Verdict]) -> None:
    done = stage.sort_out(answer, verdicts)
    if done:
        stage.require_same(stage.model.submit([submits[n] for n in done]), [answer[n] for n in done])


# workers


@dataclass(frozen=True, slots=True)
class Claiming:
    worker: int = 0
    store: int = 0
    limit: int = 2
    queues: tuple[int, ...] = (0, 1)
    types: tuple[int, ...] | None = None

    def prepare(self, stage: Stage) -> Asked:
        stage.book.made += 1
        claim = Claim(
            owner=WORKERS[self.worker],
            queues=tuple(QUEUES[n] for n in self.queues),
            limit=self.limit,
            nonce=UUID(int=0xC << 96 | stage.book.made << 16),
            types=None if self.types is None else tuple(TYPES[n] for n in self.types),
        )
        verdict = stage.verdict(False)

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
                return
            taken = {job.id for job in answer} if isinstance(answer, list) else set()
            if stage.unseen[self.store] - taken and isinstance(answer, list) and len(answer) < self.limit:
                stage.met.add("a claim passes by what was held")
            try:
                expected: Any = stage.model.claim(claim, unseen=stage.unseen[self.store] - taken)
            except HoldfastError as refusal:
                expected = refusal
            stage.require_same(expected, answer)
            if isinstance(answer, list):
                stage.leases += [(got.lease, own.lease) for got, own in zip(answer, expected, strict=True)]

        return Asked(lambda store: store.claim(claim), follow, is_claim=True)


@dataclass(frozen=True, slots=True)
class Ending:
    pick: int = 0
    is_valid: bool = True
    outcome: str = "completed"
    spawn: tuple[Draft, ...] = ()


@dataclass(frozen=True, slots=True)
class Settling:
    endings: tuple[Ending, ...] = (Ending(),)
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        chosen: dict[UUID, tuple[Settlement, Settlement]] = {}
        for ending in self.endings:
            pair = stage.pick_lease(ending.pick, is_valid=ending.is_valid)
            if pair is None or pair[0].job_id in chosen:
                continue
            outcome = OUTCOMES[ending.outcome]
            if ending.spawn:
                outcome = Completed(b"spawned", make_jobs(ending.spawn, stage.book))
            chosen[pair[0].job_id] = (
                Settlement(lease=pair[0], outcome=outcome),
                Settlement(lease=pair[1], outcome=outcome),
            )
        # Plain successes go first in PostgreSQL.
        pairs = sorted(chosen.values(), key=lambda pair: not pair[0].is_plain_success)
        verdicts = [_verdict_of_settlement(stage, own) for _, own in pairs]

        async def follow(answer: Any) -> None:
            done = stage.sort_out(answer, verdicts)
            if done:
                stage.require_same(stage.model.settle([pairs[n][1] for n in done]), [answer[n] for n in done])

        return Asked(lambda store: store.settle([given for given, _ in pairs]), follow)


def _verdict_of_settlement(stage: Stage, settlement: Settlement) -> Verdict:
    job_id, outcome = settlement.lease.job_id, settlement.outcome
    is_valid = stage.world.jobs[job_id].token == settlement.lease.token
    spawn = outcome.spawn if isinstance(outcome, Completed) else ()
    is_job_held = stage.is_held({job_id})
    is_spawn_held = are_held(stage.world, *needs(stage.world, spawn))
    is_held = is_valid and (is_job_held or is_spawn_held)
    # A fan-in that waits for the spawner is changed with it.
    return stage.verdict(is_held, may_be_held=is_job_held or (bool(spawn) and bool(stage.open)))


@dataclass(frozen=True, slots=True)
class Extending:
    pick: int = 0
    is_valid: bool = True
    store: int = 0
    is_report: bool = False

    def prepare(self, stage: Stage) -> Asked:
        pair = stage.pick_lease(self.pick, is_valid=self.is_valid)
        if pair is None:
            return _NOTHING
        given, own = pair
        is_held = stage.is_held({given.job_id})
        verdict = stage.verdict(is_held and self.is_valid, may_be_held=is_held)
        stage.book.made += 1
        progress = Progress(percent=float(stage.book.made % 100))

        async def ask(store: Any) -> Any:
            if self.is_report:
                return await store.report([Report(lease=given, progress=progress)])
            return await store.extend([given])

        async def follow(answer: Any) -> None:
            if stage.sort_out(answer, [verdict]):
                expected: Any = (
                    stage.model.report([Report(lease=own, progress=progress)])
                    if self.is_report
                    else stage.model.extend([own])
                )
                stage.require_same(expected, answer)

        return Asked(ask, follow)


async def _ask_nothing(_: Any) -> None: ...


_NOTHING: Final = Asked(_ask_nothing, _ask_nothing)


@dataclass(frozen=True, slots=True)
class Beating:
    """Of a live worker, with all its leases but the first ``forgotten``."""

    worker: int = 0
    store: int = 0
    forgotten: int = 0

    def prepare(self, stage: Stage) -> Asked:
        worker = WORKERS[self.worker]
        if worker in stage.dead_workers:
            return _NOTHING
        pairs = stage.held_by(worker)[self.forgotten :]
        verdict = stage.verdict(False)
        beats = [Heartbeat(worker=worker, held=tuple(pair[n] for pair in pairs)) for n in (0, 1)]

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
            else:
                stage.require_same(stage.model.heartbeat(beats[1]), answer)

        return Asked(lambda store: store.heartbeat(beats[0]), follow)


@dataclass(frozen=True, slots=True)
class Registering:
    worker: int = 0
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        worker, name, verdict = WORKERS[self.worker], f"host-{self.worker}", stage.verdict(False)

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
            else:
                stage.dead_workers.discard(worker)
                stage.model.register(worker, name=name)

        return Asked(lambda store: store.register(worker, name=name), follow)


@dataclass(frozen=True, slots=True)
class Dying:
    """A worker falls silent, with all it has."""

    worker: int = 0

    async def play(self, stage: Stage) -> None:
        stage.forget(WORKERS[self.worker])


@dataclass(frozen=True, slots=True)
class Leaving:
    worker: int = 0
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        worker, verdict = WORKERS[self.worker], stage.verdict(False)

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
            else:
                stage.model.leave(worker)
                stage.forget(worker)

        return Asked(lambda store: store.leave(worker), follow)


# people


@dataclass(frozen=True, slots=True)
class Cancelling:
    picks: tuple[int, ...] = (0,)
    states: frozenset[State] | None = None
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        ids = list(dict.fromkeys(stage.book.job_id(pick, self.states) for pick in self.picks))
        verdicts = [stage.verdict(stage.is_held({job_id})) for job_id in ids]

        async def follow(answer: Any) -> None:
            answers = _named(stage, answer, ids)
            done = stage.sort_out(answers, verdicts)
            expected = stage.model.cancel([ids[n] for n in done])
            if not isinstance(answer, Unavailable):
                stage.require_same(expected, answer)

        return Asked(lambda store: store.cancel(ids), follow)


def _named(stage: Stage, answer: Any, ids: list[UUID]) -> Any:
    """An Unavailable names the jobs that it is about; the others are done."""
    if not isinstance(answer, Unavailable) or stage.database.has_one_writer:
        return answer
    named = {UUID(found) for found in _ID.findall(str(answer))}
    if not named:
        raise Difference(f"it does not say which jobs are held: {answer!r}")
    return [answer if job_id in named else None for job_id in ids]


@dataclass(frozen=True, slots=True)
class Replaying:
    pick: int = 0
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        job_id = stage.book.job_id(self.pick, frozenset(REPLAYABLE))
        # It also locks what ended with it, and all that this waits for.
        verdict = stage.verdict(stage.is_held({job_id}), may_be_held=bool(stage.open))

        async def follow(answer: Any) -> None:
            if stage.sort_out(answer, [verdict]):
                stage.require_same(stage.model.replay([job_id]), answer)

        return Asked(lambda store: store.replay([job_id]), follow)


@dataclass(frozen=True, slots=True)
class Pausing:
    queue: int = 0
    store: int = 0
    is_resume: bool = False

    def prepare(self, stage: Stage) -> Asked:
        verb, name, verdict = "resume" if self.is_resume else "pause", QUEUES[self.queue], stage.verdict(False)

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
            else:
                getattr(stage.model, verb)(name)

        return Asked(lambda store: getattr(store, verb)(name), follow)


# time


@dataclass(frozen=True, slots=True)
class Ticking:
    store: int = 0

    def prepare(self, stage: Stage) -> Asked:
        verdict = stage.verdict(False)

        async def follow(answer: Any) -> None:
            if isinstance(answer, Unavailable):
                stage.sort_out(answer, [verdict])
                return
            if gone := stage.world.jobs.keys() - stage.seen.keys():
                raise Difference(f"gone: {gone}")
            workers = await stage.database.stores[self.store].read_workers()
            stage.model.follow_tick(TICK, stage.seen, lost={worker.id for worker in workers if worker.is_lost})
            stage.require_in_time()

        return Asked(lambda store: store.tick(TICK), follow)


@dataclass(frozen=True, slots=True)
class Passing:
    """Time goes on as it should."""

    seconds: float = 1.0

    async def play(self, stage: Stage) -> None:
        await stage.pass_time(self.seconds)


@dataclass(frozen=True, slots=True)
class Jumping:
    """Somebody sets the clock, and no time passes. It stays within a day of the right time."""

    seconds: float = 0.0

    async def play(self, stage: Stage) -> None:
        stage.jump(self.seconds)


@dataclass(frozen=True, slots=True)
class Refreshing:
    """A process looks where its claims start, and others are at work before it has the answer."""

    meanwhile: tuple[Any, ...] = ()
    store: int = 0
    after: str = "claim.holders"

    async def play(self, stage: Stage) -> None:
        async def work() -> None:
            for command in self.meanwhile:
                await play(command, stage)

        await stage.database.refresh(self.store, after=self.after, meanwhile=work)


@dataclass(frozen=True, slots=True)
class ClaimingLate:
    """A transaction ends, and the process looks where its claims start, before it has the answer to a claim."""

    claiming: Claiming = field(default_factory=Claiming)
    pick: int = 0
    is_commit: bool = True

    async def play(self, stage: Stage) -> None:
        asked = self.claiming.prepare(stage)

        async def release() -> None:
            if stage.open:
                await stage.release(self.pick % len(stage.open), is_commit=self.is_commit)
            # What it finds may be behind the cursor only once the answer is there: then the next one finds it.
            await stage.database.pass_a_second()

        with stage.database.interrupted(self.claiming.store, after="claim.lease", meanwhile=release):
            await stage.play(asked, self.claiming.store)


Whole = Opening | SubmittingWithin | Closing | Dying | Passing | Jumping | Refreshing | ClaimingLate
Command = Whole | Action


async def play(command: Command, stage: Stage) -> None:
    if isinstance(command, Whole):
        await command.play(stage)
    else:
        await stage.play(command.prepare(stage), command.store)
    answers = stage.answer if isinstance(stage.answer, list) else [stage.answer]
    if any(isinstance(answer, Unavailable) for answer in answers):
        stage.met.add(type(command).__name__)
    stage.answer = None
