"""Random overlapping streams: transactions that stay open while everything else goes on, and a clock that jumps.

As in ``differential.streams``, what is rare in life is frequent here: few keys, few jobs, short timeouts.
"""

from collections.abc import Callable
from typing import Final

from holdfast.core import limits
from holdfast.core.dependencies import DependencyKind
from holdfast.core.priority import Priority
from holdfast.core.states import LIVE, State
from tests.differential.commands import OUTCOMES, Draft, Wish
from tests.differential.overlaps.commands import (
    Action,
    Beating,
    Cancelling,
    Claiming,
    ClaimingLate,
    Closing,
    Command,
    Dying,
    Ending,
    Extending,
    Jumping,
    Leaving,
    Opening,
    Passing,
    Pausing,
    Refreshing,
    Registering,
    Replaying,
    Settling,
    Submitting,
    SubmittingWithin,
    Ticking,
)
from tests.differential.overlaps.databases import STORES
from tests.differential.sides import QUEUES, WORKERS
from tests.differential.streams import Choices, SeededChoices

HOURS_5: Final = 5 * 3600.0
JUMPS: Final = (-3.0, -20.0, -90.0, -600.0, -HOURS_5, 3.0, 20.0, 90.0, 600.0, HOURS_5)
LIVING: Final = frozenset(LIVE)
SCRIPTS: Final = 60


def stream(seed: int, *, scripts: int = SCRIPTS) -> list[Command]:
    choices = SeededChoices(seed)
    begin: list[Command] = [Registering(n, store=n % STORES) for n in range(len(WORKERS))]
    return begin + [command for _ in range(scripts) for command in choices.pick(_SCRIPTS)(choices)]


def _store(c: Choices) -> int:
    return c.integer(0, STORES - 1)


def _worker(c: Choices) -> int:
    return c.integer(0, len(WORKERS) - 1)


def draft(c: Choices) -> Draft:
    return Draft(
        type=c.pick((0, 0, 1)),
        queue=c.pick((0, 0, 1)),
        payload=c.pick((0, 0, 0, 0, 1)),
        priority=c.pick((Priority.NORMAL, Priority.NORMAL, Priority.CRITICAL)),
        delay_seconds=c.pick((0.0, 0.0, 0.0, 2.5, 30.0)),
        visibility=c.pick((limits.DEFAULT_VISIBILITY_SECONDS, 3.0, 10.0, 40.0)),
        lifetime=c.pick((limits.DEFAULT_LIFETIME_SECONDS,) * 5 + (100.0,)),
        max_attempts=c.pick((3, 2, 1)),
        key=c.pick((None, None, None, 0, 1)),
        key_window=c.pick((limits.DEFAULT_KEY_WINDOW_SECONDS, 60.0)),
        wishes=_wishes(c),
    )


def _wishes(c: Choices) -> tuple[Wish, ...]:
    if c.chance(55):
        return ()
    return tuple(
        Wish(kind=c.pick(tuple(DependencyKind)), pick=c.integer(0, 5), states=c.pick((LIVING, LIVING, None)))
        for _ in range(c.pick((1, 1, 2)))
    )


def _drafts(c: Choices, most: int = 2) -> tuple[Draft, ...]:
    # One key twice in a batch is bad input.
    found = [draft(c) for _ in range(c.integer(1, most))]
    names = [(one.type, one.key) for one in found if one.key is not None]
    return tuple(found) if len(set(names)) == len(names) else tuple(found[:1])


# callers


def submit_within(c: Choices) -> list[Command]:
    within = SubmittingWithin(_drafts(c), pick=c.integer(0, 1), store=_store(c), is_after_own=c.chance(20))
    return [Opening(), within] if c.chance(60) else [within]


def hold_what_is_wanted(c: Choices) -> list[Command]:
    """A transaction waits for a job, and that job is what the others are asked about."""
    states = frozenset({c.pick((State.RUNNING, State.SCHEDULED, State.PENDING, State.DELAYED, State.RETRYING))})
    hold = SubmittingWithin((Draft(wishes=(Wish(states=states),)),), store=_store(c))
    then: tuple[Callable[[Choices], list[Command]], ...] = (settle, extend, cancel, claim, beat, tick, leave, submit)
    return [Opening(), hold, *c.pick(then)(c), *c.pick(then)(c)]


def leave_with_a_held_lease(c: Choices) -> list[Command]:
    """What it holds cannot be handed back, and is nobody's then."""
    worker, store = _worker(c), _store(c)
    begin: list[Command] = [
        Registering(worker, store=store),
        Submitting(((Draft(priority=Priority.CRITICAL, visibility=c.pick((3.0, 40.0))),),), store=store),
        Claiming(worker, store=store),
        Opening(),
        SubmittingWithin((Draft(wishes=(Wish(states=frozenset({State.RUNNING})),)),), store=store),
    ]
    return [*begin, Leaving(worker, store=_store(c)), *(close(c) if c.chance(60) else [])]


def commit_late(c: Choices) -> list[Command]:
    """Its time has come long before it can be seen."""
    delay = c.pick((0.0, 2.5, 2.5, 30.0))
    late = SubmittingWithin(
        (Draft(delay_seconds=delay, type=c.pick((0, 1)), queue=c.pick((0, 1))),), pick=1, store=_store(c)
    )
    between: list[Command] = [Passing(c.pick((3.0, 33.0, 100.0, 100.0))), *submit(c), *claim(c), Ticking(0), Ticking(1)]
    begin = [Opening(), late, *between, *(claim(c) if c.chance(50) else []), Passing(3.0), Closing(pick=1)]
    return [*begin, *(stand_still(c) if c.chance(60) else [])]


def stand_still(c: Choices) -> list[Command]:
    """The clock is put back by as much as has passed, so by the clock no time has."""
    store, seconds = _store(c), c.pick((100.0, 100.0, 50.0))
    return [Ticking(store), Passing(seconds), Jumping(-seconds), Ticking(store)]


def refresh_meanwhile(c: Choices) -> list[Command]:
    """A place is drawn, and a later one claimed, while a process asks how far places are drawn."""
    store, queue = _store(c), c.pick((0, 1))
    late = SubmittingWithin((Draft(queue=queue),), pick=1, store=_store(c))
    others = (Submitting(((Draft(queue=queue),),), store=_store(c)), Claiming(_worker(c), store=store, limit=5))
    refresh = Refreshing((Opening(), late, *others), store=store, after=c.pick(("claim.holders", "claim.floors")))
    return [
        _claiming(c),
        refresh,
        Passing(3.0),
        Closing(pick=1),
        Passing(1.0),
        Claiming(_worker(c), store=store, limit=5),
    ]


def claim_late(c: Choices) -> list[Command]:
    """What commits after a claim looked, and before its answer is there, lies behind what it took."""
    store, queue = _store(c), c.pick((0, 1))
    late = SubmittingWithin((Draft(queue=queue),), pick=1, store=_store(c))
    other = Submitting(((Draft(queue=queue),),), store=_store(c))
    claiming = Claiming(_worker(c), store=store, limit=c.pick((1, 2, 5)))
    return [Opening(), late, other, ClaimingLate(claiming, pick=1, is_commit=c.chance(80)), *claim(c)]


def die_ahead_of_time(c: Choices) -> list[Command]:
    """It was last seen in what is the future again, and so was its lease."""
    worker, store, seconds = _worker(c), _store(c), c.pick((600.0, HOURS_5))
    urgent = Submitting(((Draft(priority=Priority.CRITICAL),),), store=store)
    begin: list[Command] = [Jumping(seconds), Registering(worker, store=store), urgent, Claiming(worker, store=store)]
    return [*begin, Dying(worker), Jumping(-seconds)]


def close(c: Choices) -> list[Command]:
    during: Action | None = None
    if c.chance(40):
        kinds: tuple[Callable[[Choices], Action], ...] = (_submitting, _settling, _cancelling, _replaying, _claiming)
        during = c.pick(kinds)(c)
    return [Closing(is_commit=c.chance(70), pick=c.integer(0, 1), during=during)]


# everybody else


def _submitting(c: Choices) -> Submitting:
    batches = tuple(_drafts(c) for _ in range(c.pick((1, 1, 2))))
    keys = [(one.type, one.key) for batch in batches for one in batch if one.key is not None]
    if len(set(keys)) < len(keys):
        batches = batches[:1]
    return Submitting(batches, store=_store(c), is_after_open=c.chance(10))


def _settling(c: Choices) -> Settling:
    endings = tuple(
        Ending(
            pick=c.integer(0, 4),
            is_valid=c.chance(85),
            outcome=c.pick(tuple(OUTCOMES)),
            spawn=_drafts(c) if c.chance(10) else (),
        )
        for _ in range(c.pick((1, 1, 2, 3)))
    )
    return Settling(endings, store=_store(c))


def _cancelling(c: Choices) -> Cancelling:
    picks = tuple(c.integer(0, 6) for _ in range(c.pick((1, 1, 2, 3))))
    return Cancelling(picks, states=c.pick((LIVING, LIVING, None)), store=_store(c))


def _replaying(c: Choices) -> Replaying:
    return Replaying(c.integer(0, 5), store=_store(c))


def _claiming(c: Choices) -> Claiming:
    return Claiming(
        _worker(c),
        store=_store(c),
        limit=c.pick((1, 2, 3, 5)),
        queues=c.pick(((0, 1), (0, 1), (1, 0), (0,), (1,))),
        types=c.pick((None, None, None, (0,), (1,))),
    )


def submit(c: Choices) -> list[Command]:
    return [_submitting(c)]


def claim(c: Choices) -> list[Command]:
    return [_claiming(c)]


def settle(c: Choices) -> list[Command]:
    return [_settling(c)]


def extend(c: Choices) -> list[Command]:
    return [Extending(c.integer(0, 3), is_valid=c.chance(80), store=_store(c), is_report=c.chance(30))]


def cancel(c: Choices) -> list[Command]:
    return [_cancelling(c)]


def replay(c: Choices) -> list[Command]:
    return [_replaying(c)]


def beat(c: Choices) -> list[Command]:
    return [Beating(_worker(c), store=_store(c), forgotten=c.pick((0, 0, 0, 1)))]


def leave(c: Choices) -> list[Command]:
    worker = _worker(c)
    return [Leaving(worker, store=_store(c)), *([Registering(worker, store=_store(c))] if c.chance(60) else [])]


def die(c: Choices) -> list[Command]:
    worker = _worker(c)
    return [Claiming(worker, store=_store(c)), Dying(worker)]


def come_back(c: Choices) -> list[Command]:
    return [Registering(_worker(c), store=_store(c))]


def pause(c: Choices) -> list[Command]:
    queue = c.integer(0, len(QUEUES) - 1)
    return [Pausing(queue, store=_store(c)), _claiming(c), Pausing(queue, store=_store(c), is_resume=True)]


def tick(c: Choices) -> list[Command]:
    return [Passing(c.pick((1.0, 0.5, 3.0, 5.0, 5.0, 15.0))), Ticking(_store(c))]


def jump(c: Choices) -> list[Command]:
    return [Jumping(c.pick(JUMPS)), *(tick(c) if c.chance(60) else [])]


_Script = Callable[[Choices], list[Command]]
_WEIGHTS: Final[dict[_Script, int]] = {
    submit_within: 10,
    hold_what_is_wanted: 8,
    leave_with_a_held_lease: 2,
    commit_late: 3,
    die_ahead_of_time: 2,
    refresh_meanwhile: 3,
    claim_late: 3,
    close: 12,
    submit: 12,
    claim: 14,
    settle: 12,
    extend: 3,
    cancel: 4,
    replay: 3,
    beat: 5,
    leave: 1,
    die: 2,
    come_back: 4,
    pause: 1,
    tick: 12,
    jump: 5,
}
_SCRIPTS: Final = tuple(script for script, weight in _WEIGHTS.items() for _ in range(weight))
