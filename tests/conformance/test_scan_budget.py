"""A filtered page looks at so many jobs and no more; going on from its cursor overlooks nothing.

Beside the suite because the budget is a setting of our stores, not of the port.
"""

from typing import Final

import pytest

from holdfast.core.commands import Filter, ReplayAnswer, ReplayOutcome
from holdfast.core.states import State
from holdfast.testing import StoreHarness
from holdfast.testing.factories import job_in_state, new_job, read_pages, submit_jobs, submit_one

BUDGET: Final = 10


@pytest.fixture(autouse=True)
def small_budget(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.store, "_scan_budget", BUDGET)


@pytest.mark.parametrize(
    "where",
    [
        *(Filter(tag=("rare", "yes")), Filter(type="rare"), Filter(queue="rare"), Filter(group="rare")),
        Filter(type="rare", tag=("rare", "yes")),
    ],
    ids=["tag", "type", "queue", "group", "both"],
)
async def test_every_match_is_found_over_short_pages(harness: StoreHarness, where: Filter) -> None:
    """Page: it may be short, even empty, and still have a cursor."""
    rare = []
    for _ in range(3):
        rare.append(await submit_one(harness.store, type="rare", queue="rare", group="rare", tags={"rare": "yes"}))
        await submit_jobs(harness.store, *(new_job() for _ in range(2 * BUDGET + 3)))
    pages = await read_pages(harness.store, where, limit=2)
    assert [job.id for page in pages for job in page.jobs] == rare[::-1]
    assert all(page.next_cursor is not None for page in pages[:-1])


async def test_a_search_in_vain_comes_to_an_end(harness: StoreHarness) -> None:
    """Page: go on until there is no cursor."""
    await submit_jobs(harness.store, *(new_job() for _ in range(5 * BUDGET)))
    pages = await read_pages(harness.store, Filter(type="nobody's"), limit=2)
    assert [job for page in pages for job in page.jobs] == []
    assert len(pages) <= 5 * BUDGET // BUDGET + 1


async def test_replay_by_filter_goes_on_over_short_pages(harness: StoreHarness) -> None:
    """ReplayPage: the same."""
    wanted = await job_in_state(harness.store, State.FAILED, type="wanted")
    for _ in range(2 * BUDGET):
        await job_in_state(harness.store, State.FAILED)
    answers: list[ReplayAnswer] = []
    cursor = None
    for _ in range(10):
        page = await harness.store.replay_where(Filter(type="wanted"), limit=5, cursor=cursor)
        answers += page.answers
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [(one.job_id, one.outcome) for one in answers] == [(wanted, ReplayOutcome.REPLAYED)]
