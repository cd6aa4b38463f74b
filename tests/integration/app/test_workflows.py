"""Workflows on every store: accepted as a whole, run in order, found again by their key."""

from datetime import timedelta

import pytest

from holdfast import IdempotencyConflict, InvalidInput, JobFailed, State, UsageError, chain, fan_in, fan_out
from holdfast.core.commands import CancelOutcome
from tests.integration.app.conftest import Jobs

PATIENCE = timedelta(seconds=60)


async def test_a_fan_in_reads_the_results_of_all(opened: Jobs) -> None:
    async with opened.app.worker():
        workflow = fan_in(*[opened.add.call(n, 1) for n in range(5)], into=opened.total.call())
        assert await (await workflow.submit()).result(timeout=PATIENCE) == 15


async def test_a_chain_runs_in_order(opened: Jobs) -> None:
    async with opened.app.worker():
        handle = await chain(opened.add.call(1, 2), opened.total.call(), opened.total.call()).submit()
        assert await handle.result(timeout=PATIENCE) == 3
    ended = [(await one.job()).completed_at for one in handle.handles]
    assert ended == sorted(ended, key=lambda at: at or PATIENCE)


async def test_a_fan_out_gives_a_list_as_deep_as_it_is(opened: Jobs) -> None:
    inner = fan_out(opened.add.call(0), opened.add.call(2), opened.add.call(3))
    workflow = fan_out(opened.add.call(0), opened.add.call(1), inner)
    async with opened.app.worker():
        with_lists = await workflow.submit()
        assert await with_lists.result(timeout=PATIENCE) == [1, [2, 3]]


async def test_what_comes_behind_a_failure_ends_with_it(opened: Jobs) -> None:
    async with opened.app.worker():
        handle = await chain(opened.fail.call("no such customer"), opened.add.call(1)).submit()
        with pytest.raises(JobFailed, match=f"its dependency {handle.handles[0].id} ended in FAILED"):
            await handle.result(timeout=PATIENCE)
    assert [(await one.job()).state for one in handle.handles] == [State.FAILED, State.FAILED]


async def test_no_part_of_a_refused_workflow_is_accepted(opened: Jobs) -> None:
    """WORKFLOW-1"""
    bad = opened.add.options(tags={"": ""}).call(2)
    with pytest.raises(InvalidInput, match="job 1: tags"):
        await chain(opened.add.call(1), bad, opened.add.call(3)).submit()
    assert (await opened.app.list()).jobs == ()


async def test_a_workflow_is_found_again_by_its_key(opened: Jobs) -> None:
    """WORKFLOW-2"""
    first = await chain(opened.add.call(1), opened.total.call()).submit(key="order-7")
    again = await chain(opened.add.call(1), opened.total.call()).submit(key="order-7")
    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    assert first.handles == again.handles
    assert [(await one.job()).key for one in first.handles] == ["order-7#0", "order-7#1"]
    with pytest.raises(IdempotencyConflict):
        await chain(opened.add.call(1), opened.total.call(), opened.add.call(2)).submit(key="order-7")
    with pytest.raises(UsageError, match="key 'own' of its own"):
        await chain(opened.add.options(key="own").call(1)).submit(key="order-8")


async def test_a_workflow_is_cancelled_as_a_whole(opened: Jobs) -> None:
    handle = await chain(opened.add.call(1), opened.add.call(2)).submit()
    answers = await handle.cancel()
    assert {answer.outcome for answer in answers} <= {CancelOutcome.CANCELLED, CancelOutcome.ALREADY_ENDED}
    assert {(await one.job()).state for one in handle.handles} == {State.CANCELLED}
