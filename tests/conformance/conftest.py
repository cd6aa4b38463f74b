"""A fresh, empty store for each test, and a look at it when the test is over."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from holdfast.testing import StoreHarness
from holdfast.testing.invariants import require_consistent
from tests.conformance.harnesses import STORES, OpenHarness
from tests.servers import Postgres

if TYPE_CHECKING:
    from tests.conformance.postgres import ConformanceDatabase


@pytest.fixture(scope="session")
def conformance_database(postgres_server: Postgres) -> "Iterator[ConformanceDatabase]":
    from tests.conformance.postgres import conformance_database

    with conformance_database(postgres_server) as database:
        yield database


@pytest.fixture(params=STORES)
def open_harness(request: pytest.FixtureRequest) -> OpenHarness:
    """Synchronous, so that the session's servers are started outside of the test's event loop."""
    return STORES[request.param](request)


@pytest.fixture
async def harness(open_harness: OpenHarness) -> AsyncIterator[StoreHarness]:
    async with open_harness() as harness:
        yield harness
        await require_consistent(harness.store)
