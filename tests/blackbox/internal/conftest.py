"""Design A without its worker, so that nothing runs but what a test does."""

from collections.abc import Iterator

import pytest

from tests.blackbox.internal.parts import Parts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "parts" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("blackbox-internal"))


@pytest.fixture(scope="session")
def parts() -> Iterator[Parts]:
    """Gateway, job, queue, coordinator and result; tests play the worker."""
    started = Parts("gateway", "job", "queue", "coordinator", "result")
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def quiet() -> Iterator[Parts]:
    """A queue that nobody else takes jobs from."""
    started = Parts("queue")
    try:
        started.start()
        yield started
    finally:
        started.close()
