"""The program works for some seconds; whether figures stay as they are is not for so short a time to say."""

import pytest

from soak.report import PARTIAL_FOLDER, Report
from soak.run import WORKER_MEMORY, Settings, run

SECONDS = 6.0
JOBS_A_SECOND = 200.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
async def test_a_short_soak_loses_nothing_and_leaves_nothing(store: str) -> None:
    settings = Settings(store=store, seconds=SECONDS, jobs_a_second=JOBS_A_SECOND, retention_seconds=2.0)
    outcome = await run(settings, lambda share, text: None)
    assert outcome.problems == []
    assert (outcome.lost, outcome.left, outcome.kept) == (0, 0, 0)
    assert outcome.done >= outcome.accepted > SECONDS * JOBS_A_SECOND / 3
    values = outcome.samples[-1].values
    assert values[WORKER_MEMORY] > 0
    assert all(value > 0 for value in values.values())
    report = Report(command="", outcomes=[outcome])
    assert not report.is_whole
    assert WORKER_MEMORY in report.text()
    assert PARTIAL_FOLDER.name == "soak"
