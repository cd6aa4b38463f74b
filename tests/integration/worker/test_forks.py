"""A handler that forks: the copy of the worker must never go on as a worker. EXECUTOR-4."""

import os

import pytest

from holdfast.core.states import State
from tests.integration.worker.world import World


def fork_and_return() -> int:
    """The copy returns into the worker's code, as a careless handler would let it."""
    pid = os.fork()
    if pid == 0:
        return 0
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_forked_copy_settles_nothing(world: World, is_async: bool) -> None:
    async def on_loop() -> int:
        return fork_and_return()

    job_id = await world.submit(world.handle(on_loop if is_async else fork_and_return))
    async with world.worker():
        job = await world.until(job_id)
        again = await world.submit(world.handle(on_loop if is_async else fork_and_return))
        assert (await world.until(again)).state is State.COMPLETED
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, b"70", 1)
