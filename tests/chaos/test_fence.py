"""The checker is no yes-man: with the token dropped from one statement, a zombie's word is taken, and it goes red."""

import pytest

from chaos.fence import DEAF_VARIABLE, FENCE_VARIABLE
from chaos.load import Load
from chaos.run import Outcome, Settings, run

ZOMBIES = Load(jobs_a_second=5.0, slow_jobs_a_second=3.0, slow_seconds=(2.5, 4.0), has_second_app=False)
"""Handlers that would be done when their worker wakes up, while whoever has the job by then, in a free slot, is not."""

DEAF = {DEAF_VARIABLE: "1"}
"""Else a worker that wakes up mostly learns of its loss before it speaks, and the fence is not asked."""
BROKEN = {FENCE_VARIABLE: "1"}


async def with_zombies(store: str, *, is_fence_broken: bool) -> Outcome:
    settings = Settings(
        store=store,
        seed=f"fence-{store}",
        jobs=20,
        seconds=2.0,
        strikes_a_fault=1,
        only=["stop-worker"],
        workers=2,
        load=ZOMBIES,
        breaks=DEAF | BROKEN if is_fence_broken else DEAF,
    )
    return await run(settings, print)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
async def test_a_broken_fence_is_seen(store: str) -> None:
    outcome = await with_zombies(store, is_fence_broken=True)
    for _ in range(2):
        # On a busy machine a zombie's jobs may be over before it wakes up: then once more.
        if not outcome.verdict.count("stale"):
            outcome = await with_zombies(store, is_fence_broken=True)
    assert outcome.verdict.count("stale") > 0
    assert not outcome.holds


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
async def test_a_zombie_is_refused(store: str) -> None:
    outcome = await with_zombies(store, is_fence_broken=False)
    # These workers are deaf to what they have lost, so their handlers go on beside the others' for a while.
    outcome.verdict.found.pop("double")
    assert outcome.holds, outcome.verdict.examples() + outcome.problems
    assert outcome.verdict.refused > 0
