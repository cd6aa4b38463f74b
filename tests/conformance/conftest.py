"""A fresh, empty store for each test, and a look at it when the test is over."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from holdfast.testing import StoreHarness
from holdfast.testing.invariants import require_consistent, require_healthy
from tests.conformance.harnesses import STORES, OpenHarness
from tests.servers import Postgres

if TYPE_CHECKING:
    from tests.conformance.postgres import ConformanceDatabase, KeptStores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for these tests, so that connections outlive each of them."""
    for item in items:
        if item.path.parent == Path(__file__).parent and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def conformance_database(postgres_server: Postgres) -> "Iterator[ConformanceDatabase]":
    from tests.conformance.postgres import conformance_database

    with conformance_database(postgres_server) as database:
        yield database


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kept_stores(conformance_database: "ConformanceDatabase") -> "AsyncIterator[KeptStores]":
    from tests.conformance.postgres import KeptStores

    stores = KeptStores(conformance_database.url)
    yield stores
    await stores.close()


@pytest.fixture(params=STORES)
def open_harness(request: pytest.FixtureRequest) -> OpenHarness:
    """Synchronous, so that the session's servers are started outside of the test's event loop."""
    return STORES[request.param](request)


@pytest_asyncio.fixture(loop_scope="session")
async def harness(open_harness: OpenHarness) -> AsyncIterator[StoreHarness]:
    async with open_harness() as harness:
        yield harness
        await require_consistent(harness.store)
        await require_healthy(harness)
