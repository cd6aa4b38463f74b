import logging

import pytest

from tests.unit.designs.services.parts import Parts


@pytest.fixture
async def parts() -> Parts:
    return Parts()


class Events:
    """What was logged, by event."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def job_ids(self, event: str) -> list[str]:
        records = [record for record in self._caplog.records if vars(record).get("event") == event]
        return [vars(record).get("job_id", "") for record in records]


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    caplog.set_level(logging.INFO)
    return Events(caplog)
