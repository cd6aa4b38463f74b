"""Run one overlapping stream, then see that every job comes to an end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from holdfast.core.states import State
from tests.differential.driver import Difference
from tests.differential.overlaps.commands import (
    DRAINER,
    Claiming,
    Closing,
    Command,
    Ending,
    Pausing,
    Registering,
    Settling,
    Ticking,
    play,
)
from tests.differential.overlaps.databases import STORES, OpenDatabase
from tests.differential.overlaps.stage import Stage
from tests.differential.overlaps.time import JumpingClock, Steady
from tests.differential.sides import QUEUES
from tests.differential.snapshots import differences

DRAIN_ROUNDS: Final = 400
ROUND_SECONDS: Final = 5.0
QUIET_ROUNDS: Final = 24
"""Two minutes: a silent worker is lost by then, and every search has begun again."""
MOST_CLAIMED: Final = 5


async def run_overlap(commands: Sequence[Command], open_database: OpenDatabase) -> set[str]:
    """What was met. A difference names the step and the command."""
    clock, steady = JumpingClock(), Steady()
    async with open_database(clock, steady) as database:
        stage = Stage(database, clock, steady)
        for number, command in enumerate(commands):
            try:
                await play(command, stage)
            except AssertionError as difference:
                raise Difference(f"step {number}: {command}\n{difference}") from difference
        try:
            await drain(stage)
        except AssertionError as difference:
            raise Difference(f"while the jobs were brought to an end:\n{difference}") from difference
    return stage.met


async def drain(stage: Stage) -> None:
    """Nobody holds anything, the clock goes on, one worker lives: all jobs end, and all sides agree how."""
    while stage.open:
        await play(Closing(), stage)
    for queue in range(len(QUEUES)):
        await play(Pausing(queue, is_resume=True), stage)
    await play(Registering(DRAINER), stage)
    quiet = 0
    for number in range(DRAIN_ROUNDS):
        before = _unfinished(stage)
        if not before:
            await _compare_attempts(stage)
            return
        await _drain_once(stage, number % STORES)
        quiet = quiet + 1 if _unfinished(stage) == before else 0
        if quiet >= QUIET_ROUNDS:
            _skip_to_the_next_time(stage)
            quiet = 0
    raise Difference(f"left after {DRAIN_ROUNDS} rounds: {_unfinished(stage)}")


async def _drain_once(stage: Stage, store: int) -> None:
    await stage.pass_time(ROUND_SECONDS)
    await play(Ticking(store), stage)
    await play(Registering(DRAINER, store=store), stage)
    await play(Claiming(DRAINER, store=store, limit=MOST_CLAIMED), stage)
    while stage.pick_lease(0, is_valid=True) is not None:
        await play(Settling((Ending(),), store=store), stage)


def _unfinished(stage: Stage) -> dict[str, State]:
    return {str(job.id): job.state for job in stage.book.jobs(None) if not job.state.is_terminal}


def _skip_to_the_next_time(stage: Stage) -> None:
    """What was delayed while the clock was ahead is due when it is there again."""
    live = [job for job in stage.book.jobs(None) if not job.state.is_terminal]
    times: list[datetime] = [job.due_at for job in live if job.due_at is not None and job.due_at > stage.clock.now()]
    if not times or any(job.state is State.RUNNING for job in live):
        raise Difference(f"left for {QUIET_ROUNDS * ROUND_SECONDS} s, and nobody works on them: {_unfinished(stage)}")
    seconds = (min(times) - stage.clock.now()).total_seconds()
    stage.clock.advance(seconds)
    stage.steady.seconds += seconds


async def _compare_attempts(stage: Stage) -> None:
    for store in stage.database.stores:
        for job_id in stage.world.jobs:
            expected = [(a.id, a.number, a.owner) for a in stage.model.read_attempts(job_id)]
            got = [(a.id, a.number, a.owner) for a in await store.read_attempts(job_id)]
            if found := differences(expected, got, f"attempts of {job_id}"):
                raise Difference("\n  ".join(found))
