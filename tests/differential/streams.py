"""Random streams of commands, biased so that what is rare in life is frequent here.

Few job types, two queues, three workers, small limits and short timeouts: so that jobs meet. A script is a few commands
that lead somewhere random ones seldom come, such as a worker that falls silent while ticks go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, Protocol, TypeVar

from holdfast.core import limits
from holdfast.core.commands import Tick
from holdfast.core.dependencies import DependencyKind
from holdfast.core.priority import Priority
from holdfast.core.states import LIVE, REPLAYABLE, State
from tests.differential.commands import (
    FLAWS,
    OUTCOMES,
    WHOLE_FLAWS,
    Advancing,
    Beating,
    Cancelling,
    Choice,
    Claiming,
    ClaimingAgain,
    ClaimingIds,
    Command,
    Draft,
    Ending,
    Extending,
    Firing,
    Leaving,
    Listing,
    Pausing,
    Registering,
    Replaying,
    ReplayingWhere,
    Reporting,
    Settling,
    Submitting,
    SubmittingAgain,
    Ticking,
    Wanted,
    Wish,
)
from tests.differential.sides import QUEUES, WORKERS

Option = TypeVar("Option")
DAY_SECONDS: Final = 24 * 3600.0
DEAD: Final = frozenset(REPLAYABLE)
LIVING: Final = frozenset(LIVE)
ENDED_BADLY: Final = frozenset({*REPLAYABLE, State.CANCELLED})


class Choices(Protocol):
    """Where chance comes from: a seeded Random, or Hypothesis. Both prefer nothing, Hypothesis shrinks to the first."""

    def pick(self, options: Sequence[Option]) -> Option: ...

    def integer(self, least: int, most: int) -> int: ...

    def chance(self, percent: int) -> bool: ...


class SeededChoices:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[Option]) -> Option:
        return self._random.choice(options)

    def integer(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent


def next_script(c: Choices) -> list[Command]:
    return c.pick(_SCRIPTS)(c)


def start(c: Choices) -> list[Command]:
    """Most streams begin with workers, so that claims find somebody."""
    return [Registering(n) for n in range(c.pick((3, 3, 3, 2, 0)))]


# jobs


def draft(c: Choices, *, siblings: int = 1) -> Draft:
    if c.chance(30):
        return Draft(queue=c.pick((0, 1)), type=c.pick((0, 1)))
    is_short = c.chance(40)
    lifetime = c.pick((30.0, 8.0)) if is_short else limits.DEFAULT_LIFETIME_SECONDS
    run_in = c.pick((None, None, None, None, -1.0, 3.0, 8.0 if is_short else 60.0))
    return Draft(
        type=c.pick((0, 0, 1)),
        queue=c.pick((0, 0, 1)),
        payload=c.pick((0, 0, 0, 1)),
        priority=c.pick((Priority.NORMAL, Priority.NORMAL, Priority.CRITICAL, Priority.BULK)),
        delay_seconds=c.pick((0.0, 0.0, 2.5)) if run_in is None else 0.0,
        run_in_seconds=run_in,
        visibility=c.pick((limits.DEFAULT_VISIBILITY_SECONDS, 3.0, 10.0, 40.0)),
        lifetime=lifetime,
        max_attempts=c.pick((2, 1, 3)),
        key=c.pick((None, None, 0, 1)),
        key_window=c.pick((limits.DEFAULT_KEY_WINDOW_SECONDS, 5.0, 60.0)),
        wishes=wishes(c, siblings),
        is_labelled=c.chance(20),
    )


def wishes(c: Choices, siblings: int) -> tuple[Wish, ...]:
    if c.chance(50):
        return ()
    return tuple(
        Wish(
            kind=c.pick(tuple(DependencyKind)),
            sibling=c.integer(0, siblings - 1) if siblings > 1 and c.chance(60) else None,
            is_in_batch_before=c.chance(25),
            pick=c.integer(0, 5),
            states=c.pick((LIVING, None, ENDED_BADLY, frozenset({State.COMPLETED}))),
        )
        for _ in range(c.pick((1, 1, 2, 3)))
    )


def batch(c: Choices, *, most: int = 4) -> tuple[Draft, ...]:
    size = c.integer(1, most)
    drafts = [draft(c, siblings=size) for _ in range(size)]
    # Backwards mostly, or nearly every batch would have a cycle.
    if not c.chance(10):
        drafts = [_looking_back(n, one) for n, one in enumerate(drafts)]
    return tuple(drafts)


def _looking_back(n: int, one: Draft) -> Draft:
    kept = tuple(wish for wish in one.wishes if wish.sibling is None or wish.is_in_batch_before or wish.sibling < n)
    return _with(one, wishes=kept)


def _with(one: Draft, **changes: object) -> Draft:
    return replace(one, **changes)  # type: ignore[arg-type]


def submit_one(c: Choices) -> list[Command]:
    return [Submitting(((draft(c),),))]


def submit_batch(c: Choices) -> list[Command]:
    return [Submitting((batch(c),))]


def submit_several(c: Choices) -> list[Command]:
    return [Submitting(tuple(batch(c, most=3) for _ in range(c.integer(2, 3))))]


def submit_keyed_as_one(c: Choices) -> list[Command]:
    key, window = c.integer(0, 1), c.pick((limits.DEFAULT_KEY_WINDOW_SECONDS, 5.0))
    drafts = tuple(_with(one, key=key, key_window=window) for one in batch(c, most=3))
    commands: list[Command] = [Submitting((drafts,), is_keyed_as_one=True)]
    if c.chance(70):
        commands.append(SubmittingAgain(is_new=True, other_payload=c.chance(20), leave_out=c.pick((0, 0, 1))))
    if c.chance(30):
        longer = Submitting(((*drafts, _with(draft(c), key=key)),), is_keyed_as_one=True)
        commands.append(longer)
    return commands


def submit_keyed(c: Choices) -> list[Command]:
    one = _with(draft(c), key=c.integer(0, 1), type=0)
    return [Submitting(((one,),)), SubmittingAgain(is_new=True, other_payload=c.chance(40))]


def submit_again(c: Choices) -> list[Command]:
    return [SubmittingAgain(pick=c.integer(0, 3), is_new=c.chance(30), times=c.pick((1, 1, 2)))]


def submit_badly(c: Choices) -> list[Command]:
    if c.chance(25):
        return [Submitting((batch(c, most=2),), whole_flaw=c.pick(tuple(WHOLE_FLAWS)))]
    drafts = list(batch(c, most=3))
    n = c.integer(0, len(drafts) - 1)
    drafts[n] = _with(drafts[n], flaw=c.pick(tuple(FLAWS)))
    good = batch(c, most=2)
    return [Submitting((tuple(drafts), good) if c.chance(50) else (tuple(drafts),))]


# workers


def claiming(c: Choices) -> Claiming:
    return Claiming(
        worker=c.integer(0, len(WORKERS) - 1),
        limit=c.pick((2, 1, 3, 5)),
        queues=c.pick(((0, 1), (0, 1), (1, 0), (0,), (1,))),
        types=c.pick((None, None, None, (0,), (1,), ())),
    )


def claim(c: Choices) -> list[Command]:
    commands: list[Command] = [claiming(c)]
    if c.chance(20):
        commands.append(ClaimingAgain(pick=c.pick((0, 0, 1, 3))))
    return commands


def claim_badly(c: Choices) -> list[Command]:
    return [Claiming(limit=c.pick((0, limits.MAX_CLAIM_JOBS + 1)), queues=c.pick(((0,), (), (0, 0))))]


PICKED: Final = tuple(
    frozenset(states)
    for states in (
        *((State.SCHEDULED,),) * 4,
        (State.DELAYED, State.RETRYING),
        (State.RUNNING,),
        (State.PENDING,),
        tuple(State),
    )
)


def claiming_ids(c: Choices) -> ClaimingIds:
    return ClaimingIds(
        worker=c.integer(0, len(WORKERS) - 1),
        picks=tuple((c.integer(0, 4), c.pick(PICKED)) for _ in range(c.pick((1, 2, 3, 5)))),
        queues=c.pick(((0, 1), (0, 1), (0, 1), (1, 0), (0,), (1,))),
        types=c.pick((None, None, None, (0,), (1,), ())),
        is_repeated=c.chance(20),
    )


def claim_ids(c: Choices) -> list[Command]:
    """Also just when a delay or a backoff is over, and no tick has seen it yet."""
    claiming = [claiming_ids(c)]
    if c.chance(70):
        return claiming  # type: ignore[return-value]
    late = ClaimingIds(picks=((0, frozenset({State.DELAYED, State.RETRYING})), (1, frozenset({State.DELAYED}))))
    return [Advancing(c.pick((1.0, 5.0, 61.0))), late, *claiming]


def claim_ids_beside_a_fragile_one(c: Choices) -> list[Command]:
    """It comes first among the IDs, or in their midst."""
    ready = frozenset({State.SCHEDULED})
    order = c.pick(((2, 1, 0), (1, 2, 0), (0, 1, 2)))
    return [
        Registering(0),
        Submitting(((Draft(visibility=8.0, priority=Priority.CRITICAL),),)),
        Claiming(0, queues=(0,)),
        Advancing(15.0),
        Ticking(),
        Registering(0),
        Submitting(((Draft(), Draft()),)),
        ClaimingIds(0, picks=tuple((pick, ready) for pick in order)),
    ]


def claim_ids_badly(c: Choices) -> list[Command]:
    flaw = c.pick((None, "none", "twice", "too many"))
    return [ClaimingIds(queues=() if flaw is None else (0,), flaw=flaw)]


def ending(c: Choices) -> Ending:
    children = batch(c, most=2) if c.chance(20) else ()
    if children and c.chance(10):
        children = (_with(children[0], flaw=c.pick(tuple(FLAWS))), *children[1:])
    return Ending(
        pick=c.integer(0, 4),
        is_valid=c.chance(85),
        outcome=c.pick(tuple(OUTCOMES)),
        spawn=children,
        spawn_of_spawner=_on_spawner(c) if children else None,
        percent=c.pick((None, None, 10.0, 99.5, 101.0)),
        is_unknown=c.chance(3),
    )


def settle(c: Choices) -> list[Command]:
    endings = tuple(ending(c) for _ in range(c.pick((1, 1, 2, 3))))
    return [Settling(endings, times=c.pick((1, 1, 1, 1, 1, 2)))]


def settle_again(c: Choices) -> list[Command]:
    again = Settling((Ending(outcome=c.pick(tuple(OUTCOMES)), pick=c.integer(0, 2), is_valid=False),))
    return [Settling((Ending(outcome=c.pick(tuple(OUTCOMES))),)), again]


def spawn(c: Choices) -> list[Command]:
    """A FAN_IN that is already there when the job it waits for spawns, or that comes after, or finds it by its key."""
    key = c.pick((None, 0))
    worker = c.integer(0, len(WORKERS) - 1)
    parent = Draft(key=key, priority=Priority.CRITICAL)
    fan_in = Wish(DependencyKind.FAN_IN, states=frozenset({State.RUNNING}))
    waiting = Submitting(
        ((_with(draft(c), wishes=(fan_in, *wishes(c, 1)), lifetime=limits.DEFAULT_LIFETIME_SECONDS),),)
    )
    children = batch(c, most=2)
    if c.chance(30):
        children = (_with(children[0], wishes=(Wish(states=ENDED_BADLY),)), *children[1:])
    spawning = Settling((Ending(spawn=children, spawn_of_spawner=_on_spawner(c)),))
    late = Submitting(((Draft(wishes=(Wish(DependencyKind.FAN_IN, states=frozenset({State.COMPLETED})),)),),))
    by_key = Submitting(((parent, Draft(wishes=(Wish(DependencyKind.FAN_IN, sibling=0),))),))
    begin: list[Command] = [Registering(worker), Submitting(((parent,),)), Claiming(worker)]
    return [*begin, *([waiting] if c.chance(60) else []), spawning, c.pick((late, by_key))]


def _on_spawner(c: Choices) -> DependencyKind | None:
    kinds: tuple[DependencyKind | None, ...] = (None, None, None, *DependencyKind)
    return c.pick(kinds)


def die_with_dependents(c: Choices) -> list[Command]:
    """And come back with them; or not, if something else that they need is dead."""
    worker = c.integer(0, len(WORKERS) - 1)
    on_running = Wish(c.pick(tuple(DependencyKind)), states=frozenset({State.RUNNING}))
    waiting = (_with(draft(c), wishes=(on_running, *wishes(c, 1))), *batch(c, most=2))
    if c.chance(60):
        waiting = (waiting[0], _with(waiting[1], wishes=(Wish(DependencyKind.CHAIN, sibling=0),)), *waiting[2:])
    dying = Settling((Ending(outcome=c.pick(("permanent", "temporary, not retried"))),))
    begin: list[Command] = [Registering(worker), Submitting(((Draft(),),)), Claiming(worker), Submitting((waiting,))]
    return [*begin, dying, *(replay(c) if c.chance(60) else [])]


def extend(c: Choices) -> list[Command]:
    if c.chance(30):
        # Soon enough over its lifetime for the lease to be cut.
        short = Submitting(((Draft(lifetime=30.0, visibility=20.0, priority=Priority.CRITICAL),),))
        return [Registering(0), short, Claiming(0), Advancing(15.0), Extending()]
    picks = tuple((c.integer(0, 3), c.chance(75)) for _ in range(c.pick((1, 2))))
    return [Extending(picks, with_unknown=c.chance(10))]


def report(c: Choices) -> list[Command]:
    picks = tuple((c.integer(0, 3), c.chance(75)) for _ in range(c.pick((1, 2))))
    return [Reporting(picks, percent=c.pick((None, 0.0, 33.3, 100.0, -1.0)), checkpoint=c.pick((None, b"", b"half")))]


def outlive_a_lease(c: Choices) -> list[Command]:
    """A worker that is not told that its job went on without it."""
    failing = Settling((Ending(outcome="temporary"),))
    away: tuple[list[Command], ...] = ([Advancing(3.0), Ticking()], [failing, Ticking()], [Beating(0, forgotten=9)])
    late: tuple[Command, ...] = (
        Settling((Ending(is_valid=False),)),
        Settling((Ending(is_valid=False, outcome=c.pick(tuple(OUTCOMES))),)),
        Extending(((0, False),)),
        Reporting(((0, False), (0, True))),
        Beating(0, stale=(0,)),
    )
    job = Draft(visibility=3.0, priority=Priority.CRITICAL, max_attempts=3)
    again: list[Command] = [Registering(1), Claiming(1)]
    return [Registering(0), Submitting(((job,),)), Claiming(0), *c.pick(away), *again, c.pick(late), c.pick(late)]


def become_claimable_together(c: Choices) -> list[Command]:
    """And be claimed in one claim: FIFO must be the same everywhere, also among equals."""
    worker = c.integer(0, len(WORKERS) - 1)
    on_running = Wish(states=frozenset({State.RUNNING}))
    urgent = Draft(priority=Priority.CRITICAL)
    ways: dict[str, list[Command]] = {
        "submitted": [Submitting(((urgent,) * 3,))],
        "due": [Submitting(((_with(urgent, delay_seconds=2.5),) * 3,)), Advancing(c.pick((3.0, 2.5))), Ticking()],
        "released": [
            Submitting(((urgent,),)),
            Claiming(worker),
            Submitting(((_with(urgent, wishes=(on_running,)),) * 3,)),
            Settling(),
        ],
        "replayed": [Submitting(((_with(urgent, lifetime=8.0),) * 3,)), Advancing(8.0), Ticking(), ReplayingWhere()],
        "handed back": [Submitting(((urgent,) * 3,)), Claiming(worker, limit=5), Beating(worker, forgotten=9)],
    }
    return [Registering(worker), *ways[c.pick(tuple(ways))], Claiming(worker, limit=5)]


def beat(c: Choices) -> list[Command]:
    return [
        Beating(
            worker=c.integer(0, len(WORKERS) - 1),
            forgotten=c.pick((0, 0, 1, 2)),
            stale=c.pick(((), (), (0,), (0, 1))),
            is_claiming=c.chance(40),
        )
    ]


def come_and_go(c: Choices) -> list[Command]:
    worker = c.integer(0, len(WORKERS) - 1)
    commands: tuple[Command, ...] = (Registering(worker), Registering(worker), Leaving(worker))
    return [c.pick(commands)]


# people


def choice(c: Choices) -> Choice:
    return Choice(c.integer(0, 6), c.pick((None, LIVING, DEAD, frozenset({c.pick(tuple(State))}))))


def cancel(c: Choices) -> list[Command]:
    return [Cancelling(tuple(choice(c) for _ in range(c.pick((1, 1, 2)))), with_unknown=c.chance(5))]


def cancel_running(c: Choices) -> list[Command]:
    """Then everything that can happen to a job that was asked to stop."""
    asking = Cancelling((Choice(states=frozenset({State.RUNNING})),))
    then: tuple[Callable[[Choices], list[Command]], ...] = (
        lambda c: [Settling((Ending(outcome=c.pick(tuple(OUTCOMES))),))],
        lambda c: [Settling((Ending(outcome=c.pick(tuple(OUTCOMES))),))],
        lambda c: [Beating(0, forgotten=9)],
        lambda c: [Leaving(0)],
        beat,
        extend,
        expire,
        outlive,
    )
    urgent = Draft(priority=Priority.CRITICAL, lifetime=30.0, visibility=c.pick((10.0, 40.0)))
    begin: list[Command] = [Registering(0), Submitting(((urgent,),)), Claiming(0)]
    return [*begin, asking, *([asking] if c.chance(20) else []), *c.pick(then)(c)]


def replay(c: Choices) -> list[Command]:
    choices = tuple(Choice(c.integer(0, 6), c.pick((DEAD, DEAD, None))) for _ in range(c.pick((1, 1, 2, 3))))
    return [Replaying(choices, with_unknown=c.chance(5))]


def wanted(c: Choices) -> Wanted:
    return Wanted(
        states=c.pick((None, None, LIVING, DEAD, frozenset({c.pick(tuple(State))}), frozenset())),
        queue=c.pick((None, None, 0, 1)),
        type=c.pick((None, None, 0, 1)),
        is_labelled=c.chance(20),
        from_seconds_ago=c.pick((None, None, None, 5.0, 60.0)),
        until_seconds_ago=c.pick((None, None, None, 0.0, 2.0)),
    )


def replay_where(c: Choices) -> list[Command]:
    return [ReplayingWhere(wanted(c) if c.chance(60) else Wanted(), limit=c.pick((1, 2, 10)))]


def list_jobs(c: Choices) -> list[Command]:
    return [Listing(wanted(c), limit=c.pick((1, 3, 10)))]


def pause(c: Choices) -> list[Command]:
    queue = c.integer(0, len(QUEUES) - 1)
    return (
        [Pausing(queue), claiming(c), claiming_ids(c), Pausing(queue, is_resume=True)]
        if c.chance(80)
        else [Pausing(queue)]
    )


def resume(c: Choices) -> list[Command]:
    return [Pausing(n, is_resume=True) for n in range(len(QUEUES))]


# cron


def fire(c: Choices) -> list[Command]:
    names: tuple[int, ...] = c.pick(((0,), (1,), (0, 1), (1, 0), (0, 0)))
    drafts = tuple(None if c.chance(15) else draft(c) for _ in names)
    if c.chance(10):
        drafts = (_with(draft(c), flaw=c.pick(tuple(FLAWS))), *drafts[1:])
    return [Firing(names, seconds_ago=c.pick((0.0, 0.0, 1.0, 5.0, -1.0)), drafts=drafts, times=c.pick((1, 1, 2)))]


# time


def ticking(c: Choices) -> Ticking:
    """Retention is never nothing: whether a tick removes what it has itself ended is the store's own affair."""
    timeout = c.pick((15.0, 4.0))
    if c.chance(30):
        return small_tick(c, timeout=timeout)
    return Ticking(
        Tick(
            worker_timeout_seconds=timeout,
            completed_retention_seconds=c.pick((7 * DAY_SECONDS, 7 * DAY_SECONDS, 5.0, 0.001)),
            dead_retention_seconds=c.pick((30 * DAY_SECONDS, 30 * DAY_SECONDS, 30 * DAY_SECONDS, 20.0, 0.001)),
        )
    )


def small_tick(c: Choices, *, timeout: float) -> Ticking:
    """A batch that may be full. It removes nothing: which of several old jobs go first is the store's own affair."""
    never = limits.MAX_TIMEOUT_SECONDS
    return Ticking(
        Tick(
            batch=c.pick((2, 1)),
            worker_timeout_seconds=timeout,
            completed_retention_seconds=never,
            dead_retention_seconds=never,
        )
    )


def advance(c: Choices) -> list[Command]:
    return [Advancing(c.pick((1.0, 0.25, 2.0, 5.0)))]


def tick(c: Choices) -> list[Command]:
    return [Advancing(c.pick((1.0, 0.5, 3.0, 5.0))), ticking(c)]


def expire(c: Choices) -> list[Command]:
    """Past a visibility timeout, often with a late settle before the reclaim."""
    late = settle(c) if c.chance(30) else []
    return [Advancing(c.pick((10.0, 3.0, 40.0))), *late, ticking(c)]


def outlive(c: Choices) -> list[Command]:
    return [Advancing(c.pick((31.0, 8.0, 7 * DAY_SECONDS))), *(claim(c) if c.chance(40) else []), ticking(c)]


def outlive_a_window(c: Choices) -> list[Command]:
    return [Advancing(c.pick((60.0, 5.0, DAY_SECONDS + 1))), *submit_again(c)]


def retain(c: Choices) -> list[Command]:
    days = c.pick((31, 8, 1))
    return [Advancing(days * DAY_SECONDS), Ticking()]


def fall_silent(c: Choices) -> list[Command]:
    """Ticks without a gap, while at most one worker answers."""
    one = c.pick((None, 0, 1))
    commands: list[Command] = [claiming(c)]
    for _ in range(c.pick((5, 7))):
        ticked = small_tick(c, timeout=4.0) if c.chance(30) else Ticking(Tick(worker_timeout_seconds=4.0))
        commands += [Advancing(2.0), ticked]
        commands += [] if one is None else [Beating(one)]
    return commands


def be_forgotten(c: Choices) -> list[Command]:
    """A lost worker, long after; and one that comes back."""
    return [*fall_silent(c), Advancing(DAY_SECONDS * 1.5), Ticking(), *come_and_go(c)]


_Script = Callable[[Choices], list[Command]]
_WEIGHTS: Final[dict[_Script, int]] = {
    submit_one: 10,
    submit_batch: 8,
    submit_several: 4,
    submit_keyed_as_one: 3,
    submit_keyed: 3,
    submit_again: 3,
    submit_badly: 5,
    claim: 18,
    claim_badly: 1,
    claim_ids: 8,
    claim_ids_beside_a_fragile_one: 2,
    claim_ids_badly: 1,
    settle: 14,
    settle_again: 5,
    spawn: 5,
    die_with_dependents: 5,
    outlive_a_lease: 5,
    become_claimable_together: 5,
    extend: 3,
    report: 3,
    beat: 5,
    come_and_go: 3,
    cancel: 5,
    cancel_running: 5,
    replay: 6,
    replay_where: 3,
    list_jobs: 3,
    fire: 5,
    pause: 2,
    resume: 1,
    advance: 3,
    tick: 8,
    expire: 5,
    outlive: 3,
    outlive_a_window: 2,
    retain: 2,
    fall_silent: 2,
    be_forgotten: 1,
}
_SCRIPTS: Final = tuple(script for script, weight in _WEIGHTS.items() for _ in range(weight))
