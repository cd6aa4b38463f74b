from collections.abc import AsyncIterator

import pytest

from holdfast.worker.processes import ProcessPool
from tests.unit.worker.bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """One child process."""
    pool = ProcessPool(size=1)
    yield Bench(pool)
    await pool.close()
