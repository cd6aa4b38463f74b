"""Nothing is carried from one test to the next, and every test checks that the app is left as it was."""

import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from holdfast import UsageError
from tests.unit.testing import shop

MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """TESTAPP-1"""
    shop.outbox.clear()
    shop.counting.executed = 0
    call_handlers, stdout = logging.Logger.callHandlers, sys.stdout
    yield
    assert shop.app.open_loop is None
    with pytest.raises(UsageError, match="not open"):
        _ = shop.app.store
    assert logging.Logger.callHandlers is call_handlers
    assert sys.stdout is stdout
